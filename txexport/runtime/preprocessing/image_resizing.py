"""Resizing of images, within bounds of memory."""

from typing import TYPE_CHECKING

from txexport.errors import InputError

if TYPE_CHECKING:
    from PIL.Image import Image

RESIZED = 2**24  # pixels of what an image is resized or cut to


def resized_image(image: "Image", height: int, width: int, resample: int, most: int = RESIZED) -> "Image":
    """An image at that height and width. Raises InputError for none, and for more than `most` pixels."""
    if min(height, width) < 1 or height * width > most:
        raise InputError(
            f"an image of {image.width} x {image.height} would be resized to {width} x {height}; expected 1 "
            f"or more, and at most {most:,} pixels"
        )
    return image.resize((width, height), resample)
