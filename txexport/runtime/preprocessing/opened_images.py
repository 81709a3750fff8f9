"""Images as users give them: paths, bytes of files, PIL images and arrays."""

import io
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from txexport.errors import InputError, needed_for, reason
from txexport.support.paths import is_url

if TYPE_CHECKING:
    from PIL.Image import Image

Source: TypeAlias = "str | os.PathLike[str] | bytes | Image | np.ndarray"

PIXELS = 2**27  # of an image file; telephones take photographs of 108 million


def several(images: object) -> bool:
    """Return whether `images` is a list rather than a single image."""
    return isinstance(images, Sequence) and not isinstance(images, str | bytes)


def is_empty(image: object) -> bool:
    """Return whether a path, or a stream of bytes, has none."""
    if isinstance(image, io.BytesIO):
        return not image.getbuffer().nbytes
    return isinstance(image, str | os.PathLike) and not os.path.getsize(image)


def opened(source: "Source", on_white: bool = False) -> "Image":
    """The RGB image of a path, of a file's bytes, a PIL image or an array."""
    with needed_for("reading images"):
        from PIL import Image, ImageOps, UnidentifiedImageError
    if isinstance(source, np.ndarray):
        if source.dtype != np.uint8 or source.ndim != 3 or source.shape[2] != 3 or not source.size:
            raise InputError(f"an image is {source.dtype} {source.shape}, expected uint8 (H, W, 3)")
        return Image.fromarray(source)
    image = io.BytesIO(source) if isinstance(source, bytes) else source
    name = f"of {len(source):,} bytes" if isinstance(source, bytes) else source
    if not isinstance(image, str | os.PathLike | io.BytesIO | Image.Image):
        raise InputError(
            f"an image is {type(source).__name__}, expected a path, bytes, a PIL image or an array"
        )
    if isinstance(image, Image.Image) and min(image.size) < 1:
        raise InputError(f"an image of {image.width} x {image.height} has no pixels")
    if is_url(source):
        raise InputError(f"image {name} is an address on the web; download it, and give the file")
    try:
        if not isinstance(image, Image.Image):
            with Image.open(image) as file:
                if file.width * file.height > PIXELS:
                    size = f"{file.width} x {file.height}, expected at most {PIXELS:,} pixels"
                    raise InputError(f"image {name} is {size}; make it smaller")
                image = ImageOps.exif_transpose(file).convert("RGB")
        # One colour of an image without alpha may be transparent, and still is after conversion to RGB.
        if on_white and ("A" in image.getbands() or image.info.get("transparency") is not None):
            image = image.convert("RGBA")
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
        return image.convert("RGB")
    except InputError:
        raise
    except UnidentifiedImageError:
        why = "it is empty" if is_empty(image) else "it is in no format that Pillow knows"
        raise InputError(f"image {name} cannot be read: {why}") from None
    except Exception as error:  # Pillow's decoders raise many types for damaged files
        raise InputError(f"image {name} cannot be read: {reason(error)}") from None
