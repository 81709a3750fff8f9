"""Images to pixel values, as transformers' image processors make them; H is a height, W a width."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from txexport.bundle import read_json
from txexport.contracts.names import PIXEL_VALUES
from txexport.errors import BundleError, InputError, UnsupportedError, shown
from txexport.runtime import memory
from txexport.runtime.interpolation import bilinear
from txexport.runtime.preprocessing.blurred import blurred
from txexport.runtime.preprocessing.boxes import boxes_of, centre_and_scale, cut
from txexport.runtime.preprocessing.image_defaults import (
    BOUNDED,
    BOXED,
    CANVASED,
    DEFAULTS,
    FITTING,
    MOSAICS,
    OWN_PADDING,
    PACKED,
    PADDED,
    PLAIN,
    RESIZED_AS_VALUES,
    SPLITTING,
    SQUARED,
    TILED,
    UNFILTERED,
    WITHOUT_CROP,
    WITHOUT_PILLOW,
)
from txexport.runtime.preprocessing.image_fitting import Fitted
from txexport.runtime.preprocessing.image_frames import Framed, framed
from txexport.runtime.preprocessing.image_mosaics import Mosaic, mosaics
from txexport.runtime.preprocessing.image_packing import Packing, Patches, packed, patches_of
from txexport.runtime.preprocessing.image_processors import processor
from txexport.runtime.preprocessing.image_resizing import RESIZED
from txexport.runtime.preprocessing.image_scaling import resized
from txexport.runtime.preprocessing.image_sizes import (
    Patched,
    Size,
    divisor_of,
    edges,
    pixels_of,
    share_kept,
    size_for,
)
from txexport.runtime.preprocessing.image_splits import (
    SplitImage,
    Splitting,
    masked,
    patches_in_rows,
    squares_of,
)
from txexport.runtime.preprocessing.image_tiles import Canvas, Tiled, Tiles, of_prompt, on_canvas, tiles
from txexport.runtime.preprocessing.image_values import (
    center_crop,
    centred,
    in_patches,
    levels_of,
    mean_and_deviation,
    padded,
    resized_values,
)
from txexport.runtime.preprocessing.opened_images import Source, opened, several
from txexport.runtime.preprocessing.padded_tiles import PaddedTiles, of_images, padded_tiles
from txexport.runtime.preprocessing.preprocessor import read_settings

if TYPE_CHECKING:
    from PIL.Image import Image

UNCROPPED = ("DPTImageProcessor", "DonutImageProcessor", "LayoutLMv3ImageProcessor")
FILTERS = range(6)  # as Pillow numbers them


@dataclass(frozen=True)
class Prepared:
    """An image's values (3,H,W) float32, and its height and width in pixels as it was opened.

    `rows` and `columns` of the values are the image's; behind them is padding, if the processor `pads`.
    """

    values: np.ndarray
    height: int
    width: int
    rows: int
    columns: int
    pads: bool = False


class Images:
    """The image processor of a checkpoint, with Pillow and NumPy.

    Its values equal those of transformers' Pillow processors bit for bit; where there is none, as for DINOv3,
    those of the PyTorch processor up to rounding, of bytes for SAM 2. Raises BundleError for settings that
    are missing or damaged, UnsupportedError for those of another processor or step.
    """

    def __init__(self, folder: Path):
        settings = read_settings(folder, "image_processor")
        overrides = {name: value for name, value in settings.items() if value is not None}
        kind = processor(settings, str(read_json(folder / "config.json", missing={}).get("model_type")))
        options = DEFAULTS[kind] | overrides
        options |= share_kept(options) if "crop_pct" in DEFAULTS[kind] else {}
        for name in PLAIN:
            if isinstance(PLAIN[name], bool) and not isinstance(options[name], bool):
                value = shown(options[name])
                raise BundleError(f"image processor: {name} is {value}, expected true or false")
        # The number that DPT's edges are padded to multiples of, on both sides.
        self.multiple = divisor_of(options) if kind == "DPTImageProcessor" and options["do_pad"] else 1
        if options["resample"] not in FILTERS:
            raise UnsupportedError(f"image processor: resample {shown(options['resample'])} is not supported")
        self.on_white, self.resample = bool(options["do_convert_rgb"]), int(options["resample"])
        self.size: Size | None = None
        own_sizes = TILED | PACKED | MOSAICS | SPLITTING | FITTING | CANVASED
        if options["do_resize"] or kind in own_sizes or "do_thumbnail" in DEFAULTS[kind]:
            self.size = size_for(DEFAULTS[kind], options, kind in PADDED, BOUNDED.get(kind))
        # Detectors pad images of different sizes in a batch; here these are no batch.
        unsupported = ("pad_size", "use_square_size") if kind in BOUNDED else ("do_pad", "use_square_size")
        # Images of one size are as large as the largest of their batch: nothing is padded.
        one_size = isinstance(self.size, tuple) and not options.get("pad_size")
        allowed = {"do_pad"} if kind == "DPTImageProcessor" or one_size else set()
        for name in () if kind in OWN_PADDING else unsupported:
            if options[name] and name not in allowed:
                plain = PLAIN.get(name)
                raise UnsupportedError(f"image processor: {name} is not supported; set it to {plain}")
        pads = kind in PADDED and options["do_pad"]
        padded = edges("pad_size", options["pad_size"], True) if pads else None
        self.padded = (padded, padded) if isinstance(padded, int) else padded
        crops = options["do_center_crop"] and kind not in WITHOUT_CROP
        crop = edges("crop_size", options["crop_size"], True) if crops else None
        if isinstance(crop, int):
            raise UnsupportedError(
                f"image processor: crop_size by shortest_edge is not supported; it is {crop}, "
                "expected height and width"
            )
        self.crop = crop
        self.boxed: tuple[int, int] | None = None
        if kind in BOXED:
            self.boxed, self.unit = boxes_of(options)
        self.kind, self.resizes_values = kind, kind in RESIZED_AS_VALUES
        if crop is not None and (self.resizes_values or kind in UNCROPPED):
            raise UnsupportedError(f"image processor: do_center_crop is not supported in {kind}")
        for name, size in (("size", self.size), ("crop_size", crop), ("pad_size", self.padded)):
            if pixels_of(size) > RESIZED:
                raise BundleError(
                    f"image processor: {name} is {shown(options[name])}, expected at most {RESIZED:,} pixels"
                )
        # Values are normalised behind the blur.
        self.squares, self.blurs = kind in SQUARED and options["do_pad"], kind in SQUARED
        if self.blurs and not isinstance(self.size, tuple):
            raise UnsupportedError(f"image processor: {kind} needs do_resize, to a height and a width")
        if self.blurs and not (options["do_rescale"] and self.resample):
            # The original would round to bytes, or resize without a blur.
            raise UnsupportedError(f"image processor: {kind} needs do_rescale, and a resample other than 0")
        self.unfiltered = kind in UNFILTERED and self.size is not None
        if self.unfiltered and not (options["do_rescale"] and self.resample == 2):  # else bytes are rounded
            raise UnsupportedError(f"image processor: {kind} needs do_rescale, and a resample of 2")
        self.levels = levels_of(options)
        self.byte = float(np.abs(np.diff(self.levels, axis=0)).max()) if kind in WITHOUT_PILLOW else 0.0
        self.normal = None
        if self.blurs or self.unfiltered:
            self.levels, self.normal = (
                levels_of(options | {"do_normalize": False}),
                mean_and_deviation(options),
            )

    def pixels(self, images: "Source | Sequence[Source]") -> np.ndarray:
        """pixel_values (B,3,H,W) float32 of one image or several.

        An image is a path, a file's bytes, a PIL image, or an array (H,W,3) uint8 of red, green and blue. A
        file is rotated as its EXIF data say. As in transformers, a PIL image with transparency is put on
        white where the settings have do_convert_rgb, and the alpha channel of a file is dropped. Raises
        InputError for an invalid image, and for images whose sizes differ after preprocessing.
        """
        sources: Sequence[Any] = images if several(images) else [images]  # type: ignore[assignment]
        if not sources:
            raise InputError("no image was given; expected a path, a PIL image, an array, or a list of these")
        first = self._row(opened(sources[0], self.on_white))
        memory.check(f"{len(sources):,} images of this size", len(sources) * first.nbytes)
        rows = [first, *(self._row(opened(source, self.on_white)) for source in sources[1:])]
        shapes = sorted({row.shape[1:] for row in rows})
        if len(shapes) > 1:
            message = f"images become {shapes[0]} and {shapes[1]} high and wide"
            raise InputError(f"{message}; give them one by one (batch_size 1)")
        return np.ascontiguousarray(np.stack(rows))

    def inputs(self, images: "Source | Sequence[Source]") -> dict[str, np.ndarray]:
        """The inputs of a graph by name: those of `pixels`, or patches with their mask and their shapes.

        Or the tiles of the images of a prompt, with their mask; or the packed patches of images, and grids;
        or images in tiles, padded with zeros to the most of one, and their sizes.
        """
        cut = isinstance(self.size, Patched | Packing | Tiled | Mosaic | Splitting | PaddedTiles) or (
            isinstance(self.size, Canvas) and self.size.splits
        )
        if not cut:
            return {PIXEL_VALUES: self.pixels(images)}
        sources: Sequence[Any] = images if several(images) else [images]  # type: ignore[assignment]
        if isinstance(self.size, Canvas):
            return {PIXEL_VALUES: np.concatenate([self.tiles(one).values for one in sources])}
        if isinstance(self.size, PaddedTiles):
            return of_images([self.tiles(one) for one in sources], self.size)
        if isinstance(self.size, Tiled):
            return of_prompt([self.tiles(one) for one in sources])
        if isinstance(self.size, Mosaic):
            return mosaics([opened(one, self.on_white) for one in sources], self.size, self)
        if isinstance(self.size, Packing):
            return packed([self.patches(one) for one in sources])
        if isinstance(self.size, Splitting):
            parts = [part for one in sources for part in self.split(one).parts]
            return masked(parts, self.size.most_patches)
        assert isinstance(self.size, Patched)
        return in_patches([self._row(opened(one, self.on_white)) for one in sources], self.size)

    def tiles(self, source: Any) -> Tiles:
        """The tiles of an image in a prompt, one where the processor makes no more."""
        image, rows, columns = opened(source, self.on_white), 0, 0
        if isinstance(self.size, Canvas):
            squares = on_canvas(image, self.size, self.resample)
        elif isinstance(self.size, PaddedTiles):
            squares, rows, columns = padded_tiles(image, self.size, self.resample)
        elif isinstance(self.size, Tiled):
            squares, rows, columns = tiles(image, self.size, self.resample)
        else:
            return Tiles(self._row(image)[None])
        return Tiles(self.values_of(squares), rows, columns)

    def values_of(self, squares: Sequence[np.ndarray]) -> np.ndarray:
        """The values (n,3,H,W) of tiles (H,W,3) uint8."""
        return self.levels[np.stack(squares), np.arange(3)].transpose(0, 3, 1, 2)

    def patches(self, source: Any) -> Patches:
        """The packed patches of an image of any size. Raises InputError as `pixels`."""
        assert isinstance(self.size, Packing)
        return patches_of(self._row(opened(source, self.on_white)), self.size)

    def fitted(self, source: Any, side: int) -> Tiles:
        """An image of any size in squares of `side` pixels, whatever the settings say of their side."""
        assert isinstance(self.size, Fitted)
        return Tiles(self._row(opened(source, self.on_white), replace(self.size, side=side))[None])

    def split(self, source: Any) -> SplitImage:
        """The patches of an image of any shape, and of its tiles if it is large. Errors as `pixels`."""
        assert isinstance(self.size, Splitting)
        tiles, overview, rows, columns = squares_of(opened(source, self.on_white), self.size, self.resample)
        values = [*(self.values_of(tiles) if tiles else ()), *(self.values_of([one])[0] for one in overview)]
        parts = tuple(patches_in_rows(one, self.size) for one in values)
        return SplitImage(parts, rows, columns)

    def prepared(self, source: "Source") -> Prepared:
        """One image, and its height and width before resizing. Raises InputError as `pixels`."""
        image = opened(source, self.on_white)
        values, sides = self._row(image), self._sides(image)
        return Prepared(values, image.height, image.width, *sides, self.padded is not None)

    def boxed_values(self, image: "Image", boxes: Sequence[tuple[float, float, float, float]]) -> np.ndarray:
        """The values (boxes,3,H,W) of an image within boxes: left, top, width, height."""
        assert self.boxed is not None
        (height, width), pixels = self.boxed, np.asarray(image)
        rows = []
        for box in boxes:
            centre, scale = centre_and_scale(box, width, height, self.unit)
            rows.append(self.levels[cut(pixels, centre, scale, height, width), np.arange(3)])
        return np.stack(rows).transpose(0, 3, 1, 2)

    def _sides(self, image: "Image") -> tuple[int, int]:
        """Height and width of an image's values, without padding."""
        if self.crop is not None:
            return self.crop
        height, width = image.height, image.width
        return (height, width) if self.size is None else resized(height, width, self.size)

    def _row(self, image: "Image", size: Size | None = None) -> np.ndarray:
        """The values (3,H,W) of an RGB image, of the processor's size or another one."""
        size = self.size if size is None else size
        if isinstance(size, Framed):
            return self.levels[framed(image, size, self.resample), np.arange(3)].transpose(2, 0, 1)
        if size is not None:
            width, height = image.size
            high, wide = resized(height, width, size)
            if min(high, wide) < 1:
                raise InputError(
                    f"an image of {width} x {height} would be resized to {wide} x {high}; it is too narrow"
                )
            if high * wide > RESIZED:
                raise InputError(
                    f"an image of {width} x {height} would be resized to {wide} x {high}, expected at most "
                    f"{RESIZED:,} pixels; cut it"
                )
            if self.blurs:
                return self._blurred(np.asarray(image), high, wide)
            if self.unfiltered:
                return self._normalised(bilinear(self._values(image).transpose(2, 0, 1), high, wide))
            if self.resizes_values:
                return resized_values(self._values(image), (wide, high), self.resample)
            image = image.resize((wide, high), self.resample)
        pixels = np.asarray(image)  # (H, W, 3)
        if self.crop is not None:
            pixels = center_crop(pixels, *self.crop)
        values = self.levels[pixels, np.arange(3)].transpose(2, 0, 1)  # (3, H, W)
        values = values if self.multiple == 1 else centred(values, self.multiple)
        return values if self.padded is None else padded(values, *self.padded)

    def _values(self, image: "Image") -> np.ndarray:
        """The number of every byte (H,W,3) of an image."""
        return self.levels[np.asarray(image), np.arange(3)]

    def _blurred(self, pixels: np.ndarray, height: int, width: int) -> np.ndarray:
        """The values (3,height,width) of pixels (H,W,3), resized behind a blur."""
        values = blurred(pixels, self.levels[:, 0], self.squares, height, width)
        return self._normalised(values.transpose(2, 0, 1))

    def _normalised(self, values: np.ndarray) -> np.ndarray:
        """Values (3,H,W) by the mean and the deviation of each channel, if there are any."""
        return values if self.normal is None else np.asarray((values - self.normal[0]) / self.normal[1])
