"""Images to patches in a row, each behind its row and column, as transformers' Pix2Struct makes them.

A question is drawn as a header above its image (Lee et al. 2023, 2.2).
"""

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from txexport.contracts.names import ATTENTION_MASK, FLATTENED_PATCHES
from txexport.errors import BundleError, InputError, UnsupportedError, needed_for, shown
from txexport.runtime.preprocessing.image_resizing import RESIZED
from txexport.runtime.preprocessing.image_values import resized_values
from txexport.runtime.preprocessing.opened_images import Source, opened, several
from txexport.runtime.preprocessing.preprocessor import read_settings
from txexport.support.paths import FONT

if TYPE_CHECKING:
    from PIL.Image import Image

KIND = "Pix2StructImageProcessor"
BILINEAR = 2  # as Pillow numbers filters
# Of a header, in pixels: the size of letters, the space around the text, and characters of a line.
LETTERS, SPACE, LINE = 36, 5, 80
DEFAULTS = {
    "do_normalize": True,
    "do_convert_rgb": True,
    "is_vqa": False,
    "max_patches": 2048,
    "patch_size": {"height": 16, "width": 16},
}


class FlattenedPatches:
    """The image processor of Pix2Struct, with Pillow and NumPy.

    Patches equal those of transformers' up to rounding. Raises BundleError for damaged settings,
    UnsupportedError for those of another processor.
    """

    kind: ClassVar[str] = KIND
    resizes_values: ClassVar[bool] = True
    byte: ClassVar[float] = 0.0

    def __init__(self, folder: Path):
        settings = read_settings(folder, "image_processor")
        name = str(settings.get("image_processor_type") or KIND)
        if name.removesuffix("Fast").removesuffix("Pil") != KIND:
            raise UnsupportedError(f"image processor {name} is not supported; expected {KIND}")
        options = DEFAULTS | {name: value for name, value in settings.items() if value is not None}
        for flag in ("do_normalize", "do_convert_rgb", "is_vqa"):
            if not isinstance(options[flag], bool):
                raise BundleError(
                    f"image processor: {flag} is {shown(options[flag])}, expected true or false"
                )
        self.normalises, self.on_white = options["do_normalize"], options["do_convert_rgb"]
        self.draws, self.font = bool(options["is_vqa"]), folder / FONT
        size = options["patch_size"]
        sides = [size.get(side) for side in ("height", "width")] if isinstance(size, dict) else [None]
        numbers = [*sides, options["max_patches"]]
        if not all(type(one) is int and one > 0 for one in numbers) or math.prod(numbers) > RESIZED:
            raise BundleError(
                f"image processor: max_patches is {shown(options['max_patches'])} and patch_size "
                f"{shown(size)}, expected whole numbers of at most {RESIZED:,} pixels in all"
            )
        self.height, self.width, self.most = numbers

    def pixels(self, images: "Source | Sequence[Source]") -> list[np.ndarray]:
        """The patches (n,2+numbers) float32 of one image or several; images as those of `Images.pixels`.

        Raises InputError for an invalid image.
        """
        sources: Sequence[Any] = images if several(images) else [images]  # type: ignore[assignment]
        if not sources:
            raise InputError("no image was given; expected a path, a PIL image, an array, or a list of these")
        return [self._patches(opened(source, self.on_white)) for source in sources]

    def asked(self, pairs: "Sequence[tuple[Source, str]]") -> list[np.ndarray]:
        """The patches (n,2+numbers) float32 of images below their questions. Errors as `pixels`, `header`."""
        return [
            self._patches(below(self.header(question), opened(source, self.on_white)))
            for source, question in pairs
        ]

    def inputs(self, rows: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
        """The inputs of a graph by name, of patches of images: (B,max_patches,2+numbers), and their mask."""
        mask = np.arange(self.most) < np.array([len(row) for row in rows])[:, None]
        patches = np.zeros((*mask.shape, rows[0].shape[1]), np.float32)
        for row, values in zip(patches, rows, strict=True):
            row[: len(values)] = values
        return {FLATTENED_PATCHES: patches, ATTENTION_MASK: mask.astype(np.int64)}

    def header(self, question: str) -> "Image":
        """The question in black on white, in lines of up to 80 characters.

        Raises InputError for one that is too long, and where there is no font: it is no part of a checkpoint.
        """
        with needed_for("drawing questions"):
            from PIL import Image, ImageDraw, ImageFont
        if not self.font.is_file():
            raise InputError(
                f"questions are drawn with the font {FONT}, which {self.font.parent} does not have; put it "
                "into the checkpoint's folder and export again, or export with --task image-to-text and draw "
                "them yourself"
            )
        try:
            font = ImageFont.truetype(io.BytesIO(self.font.read_bytes()), LETTERS, encoding="UTF-8")
        except OSError as error:
            raise BundleError(f"{self.font} is no font: {error}") from None
        text = "\n".join(textwrap.TextWrapper(width=LINE).wrap(text=question))
        box = ImageDraw.Draw(Image.new("RGB", (1, 1))).textbbox((0, 0), text, font=font)
        wide, high = int(box[2]) + 2 * SPACE, int(box[3]) + 2 * SPACE
        if wide * high > RESIZED:
            raise InputError(
                f"a question of {len(question):,} characters is drawn in {wide} x {high} pixels, expected at "
                f"most {RESIZED:,}; shorten it"
            )
        image = Image.new("RGB", (wide, high), "white")
        ImageDraw.Draw(image).text((SPACE, SPACE), text, fill="black", font=font)
        return image

    def _patches(self, image: "Image") -> np.ndarray:
        """The patches of an image, as many as there may be at its shape, and their rows and columns."""
        values = np.asarray(image).transpose(2, 0, 1).astype(np.float32)  # (3, H, W)
        if self.normalises:
            deviation = max(np.std(values), 1 / math.sqrt(values.size))
            values = (values - np.mean(values)) / deviation
        _, high, wide = values.shape
        scale = math.sqrt(self.most * (self.height / high) * (self.width / wide))
        rows = max(min(int(scale * high / self.height), self.most), 1)
        columns = max(min(int(scale * wide / self.width), self.most), 1)
        size = columns * self.width, rows * self.height
        if math.prod(size) > RESIZED:
            raise InputError(f"an image of {wide} x {high} would be resized to {size}; cut it")
        values = resized_values(values.transpose(1, 2, 0).astype(np.float32), size, BILINEAR)
        squares = values.reshape(3, rows, self.height, columns, self.width).transpose(1, 3, 2, 4, 0)
        positions = np.stack(np.divmod(np.arange(rows * columns), columns), axis=1) + 1
        return np.concatenate([positions.astype(np.float32), squares.reshape(len(positions), -1)], axis=1)


def below(header: "Image", image: "Image") -> "Image":
    """An image below its header, both as wide as the wider one."""
    from PIL import Image

    width = max(header.width, image.width)
    height, top = int(image.height * (width / image.width)), int(header.height * (width / header.width))
    if width * (height + top) > RESIZED:
        raise InputError(
            f"an image of {image.width} x {image.height} below its question has {width} x {height + top} "
            f"pixels, expected at most {RESIZED:,}; cut it"
        )
    both = Image.new("RGB", (width, height + top), "white")
    both.paste(header.resize((width, top)), (0, 0))
    both.paste(image.resize((width, height)), (0, top))
    return both
