"""Boxes of images, cut out at one size, as transformers does it with scipy.ndimage; H rows, W columns."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from txexport.errors import UnsupportedError, shown
from txexport.runtime.preprocessing.image_sizes import edges

PADDING = np.float32(1.25)  # of a box, by which more than it is seen
UNIT = 200.0  # pixels of a scale of 1


def boxes_of(options: Mapping[str, Any]) -> tuple[tuple[int, int], float]:
    """Height and width of parts, and the pixels of a scale of 1, in a processor's settings.

    Raises UnsupportedError for others.
    """
    size, unit = edges("size", options["size"], True), options["normalize_factor"]
    number = isinstance(unit, int | float) and not isinstance(unit, bool) and 1 <= unit <= 1e6
    if isinstance(size, int) or min(size) < 2 or not number or options["do_affine_transform"] is not True:
        raise UnsupportedError(
            f"image processor: size {shown(options['size'])}, normalize_factor {shown(unit)} and "
            f"do_affine_transform {shown(options['do_affine_transform'])} are not supported; expected a "
            "height and a width of 2 or more, a number from 1, and true"
        )
    return size, float(unit)


def centre_and_scale(
    box: tuple[float, float, float, float], width: int, height: int, unit: float = UNIT
) -> tuple[np.ndarray, np.ndarray]:
    """The centre (2) of a box: left, top, width, height; and width and height (2) float32, in `unit` pixels.

    The box is made wider or higher, so that its sides are as those of `width` and `height`.
    """
    left, top, wide, high = box
    aspect = width / height
    centre = np.array([left + wide * 0.5, top + high * 0.5], np.float32)
    if wide > aspect * high:
        high = wide / aspect
    elif wide < aspect * high:
        wide = high * aspect
    return centre, np.array([wide / unit, high / unit], np.float32) * PADDING


def cut(pixels: np.ndarray, centre: np.ndarray, scale: np.ndarray, height: int, width: int) -> np.ndarray:
    """Bytes (H,W,3) around a centre as (height,width,3), linear between pixels and black outside.

    The arithmetic is that of scipy.ndimage.affine_transform of order 1, to the last bit.
    """
    (across, left), (down, top) = _lines(centre, scale, (width, height))
    rows, shares_down = _axis(down, top, height, pixels.shape[0])
    columns, shares_across = _axis(across, left, width, pixels.shape[1])
    total = np.zeros((height, width, pixels.shape[2]))
    for row, share in zip(rows, shares_down, strict=True):
        line = pixels[row].astype(np.float64) * share[:, None, None]  # (height, W, 3)
        for column, part in zip(columns, shares_across, strict=True):
            total += line[:, column] * part[None, :, None]
    return np.floor(total + 0.5).clip(0, 255).astype(np.uint8)


def _lines(centre: np.ndarray, scale: np.ndarray, size: tuple[int, int]) -> list[tuple[float, float]]:
    """Of x and of y, a step in the image for a pixel of the result, and the first pixel's place."""
    twice, wanted = centre * 2.0, scale * UNIT
    matrix = np.zeros((2, 3), np.float32)
    for axis in (0, 1):
        factor = (size[axis] - 1.0) / wanted[axis].astype(np.float64)
        matrix[axis, axis] = factor
        matrix[axis, 2] = factor * np.float64(-0.5 * twice[axis] + 0.5 * wanted[axis])
    inverse = np.linalg.inv(np.vstack([matrix, [0, 0, 1]]))
    return [(float(inverse[axis, axis]), float(inverse[axis, 2])) for axis in (0, 1)]


def _axis(
    step: float, first: float, size: int, side: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Of each of `size` places the pixel before it and the one behind, and their shares; 0 and 0 outside."""
    places_in_image = np.arange(size) * step + first
    inside = (places_in_image >= 0) & (places_in_image <= side - 1)
    before = np.floor(places_in_image)
    near = 1.0 - (places_in_image - before)
    far = 1.0 - near
    indices = before.clip(0, side - 1).astype(np.int64)
    return (indices, np.minimum(indices + 1, side - 1)), (near * inside, far * inside)
