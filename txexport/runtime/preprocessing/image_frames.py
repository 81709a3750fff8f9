"""Images within a frame of one size, with zeros around them, as Donut's processor makes them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from txexport.errors import InputError, UnsupportedError, shown
from txexport.runtime.preprocessing.image_resizing import resized_image

if TYPE_CHECKING:
    from PIL.Image import Image

LARGEST = 2**14  # of an edge
BEFORE = 2**26  # pixels of an image that is reduced later; receipts are long
BICUBIC = 3  # as Pillow numbers it


@dataclass(frozen=True)
class Framed:
    """The height and width of a frame; images that lie across it are turned if it `aligns`.

    An image is first resized by its shorter edge if it `resizes`, then reduced to fit if it `reduces`, and at
    last padded to the frame.
    """

    height: int
    width: int
    resizes: bool
    reduces: bool
    aligns: bool


def framed_of(options: Mapping[str, Any]) -> Framed:
    """The frame in a processor's settings; a list has the width first. Raises UnsupportedError for others."""
    size = options["size"]
    if isinstance(size, list) and len(size) == 2:
        size = {"width": size[0], "height": size[1]}
    sides = [size.get(name) for name in ("height", "width")] if isinstance(size, Mapping) else [None, None]
    height, width = sides
    flags = [options[name] for name in ("do_resize", "do_thumbnail", "do_align_long_axis", "do_pad")]
    if not all(isinstance(flag, bool) for flag in flags) or not flags[3]:
        raise UnsupportedError("image processor: do_pad must be true, and other steps true or false")
    if type(height) is not int or type(width) is not int or not 1 <= min(height, width) <= LARGEST:
        raise UnsupportedError(
            f"image processor: size {shown(options['size'])} is not supported; expected a height and a width"
        )
    return Framed(height, width, *flags[:3])


def framed(image: "Image", size: Framed, resample: int) -> np.ndarray:
    """The pixels (H,W,3) uint8 of an image in the frame. Raises InputError for one that does not fit."""
    from PIL import Image

    across = (size.width < size.height) == (image.width > image.height)
    if size.aligns and size.width != size.height and image.width != image.height and across:
        image = image.transpose(Image.Transpose.ROTATE_270)
    if size.resizes:
        short = min(size.height, size.width)
        long = int(short * max(image.height, image.width) / min(image.height, image.width))
        sides = (long, short) if image.width <= image.height else (short, long)
        image = resized_image(image, *sides, resample, BEFORE)
    height, width = min(image.height, size.height), min(image.width, size.width)
    if size.reduces and (height, width) != (image.height, image.width):
        if image.height > image.width:
            width = int(image.width * height / image.height)
        elif image.width > image.height:
            height = int(image.height * width / image.width)
        image = resized_image(image, height, width, resample or BICUBIC)
    down, over = size.height - image.height, size.width - image.width
    if min(down, over) < 0:
        raise InputError(
            f"an image becomes {image.width} x {image.height}, expected at most {size.width} x {size.height}"
        )
    return np.pad(np.asarray(image), ((down // 2, down - down // 2), (over // 2, over - over // 2), (0, 0)))
