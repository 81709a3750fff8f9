"""Images as a whole and in tiles on a canvas of their shape (Liu et al. 2024, LLaVA-NeXT)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from txexport.contracts.names import IMAGE_SIZES, PIXEL_VALUES
from txexport.contracts.tile_grid import canvas_of
from txexport.errors import InputError, UnsupportedError, shown
from txexport.runtime.preprocessing.image_resizing import resized_image

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS, MOST_OF_SQUARE = 2**24, 2**27  # of a canvas, and of a square around an image
# Heights and widths of the first releases of LLaVA-NeXT, and of LLaVA-OneVision.
CANVASES = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
LARGER_CANVASES = [[384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)]


class Processor(Protocol):
    """The part of `Images` that makes values (n,3,H,W) of tiles (H,W,3), after a filter of Pillow's."""

    resample: int

    def values_of(self, squares: Sequence[np.ndarray]) -> np.ndarray:
        """See Processor."""
        ...


@dataclass(frozen=True)
class Mosaic:
    """The side of tiles, and the canvases, each a height and a width, all in pixels.

    `colour` is that around an image that is not cut, which becomes a square.
    """

    tile: int
    canvases: tuple[tuple[int, int], ...]
    colour: tuple[int, ...]


def mosaic_of(options: Mapping[str, Any]) -> Mosaic:
    """The tiles in a processor's settings. Raises UnsupportedError for other values."""
    size, crop, canvases = (options[name] for name in ("size", "crop_size", "image_grid_pinpoints"))
    sides = [value for one in (size, crop) if isinstance(one, Mapping) for value in one.values()]
    tile = sides[0] if sides else None
    if type(tile) is not int or tile < 1 or any(side != tile for side in sides) or not options["do_resize"]:
        raise UnsupportedError(
            f"image processor: size {shown(size)} with crop_size {shown(crop)} is not supported; expected "
            "one number for all, and do_resize true"
        )
    pairs = [tuple(one) for one in canvases if isinstance(one, list)] if isinstance(canvases, list) else []
    edges = [edge for one in pairs for edge in one]
    fits = all(type(edge) is int and edge > 0 and edge % tile == 0 for edge in edges)
    if not pairs or {*map(len, pairs)} != {2} or not fits or max(map(math.prod, pairs)) > MOST_PIXELS:
        raise UnsupportedError(
            f"image processor: image_grid_pinpoints {shown(canvases)} is not supported; expected heights and "
            f"widths that are multiples of {tile}, of at most {MOST_PIXELS:,} pixels"
        )
    return Mosaic(tile, tuple(pairs), tuple(int(255 * one) for one in options["image_mean"]))


def in_tiles(image: "Image", size: Mosaic, resample: int) -> list[np.ndarray]:
    """The tiles (H,W,3) uint8 of an image: the whole, then those of its canvas, row by row."""
    high, wide = canvas_of(image.height, image.width, size.canvases)
    across, down = wide / image.width, high / image.height
    if across < down:
        fitted = min(math.ceil(image.height * across), high), wide
    else:
        fitted = high, min(math.ceil(image.width * down), wide)
    pixels = np.asarray(resized_image(image, *fitted, resample))
    over, beside = high - fitted[0], wide - fitted[1]
    pixels = np.pad(pixels, ((over // 2, over - over // 2), (beside // 2, beside - beside // 2), (0, 0)))
    tiles = pixels.reshape(high // size.tile, size.tile, wide // size.tile, size.tile, 3).swapaxes(1, 2)
    overview = np.asarray(resized_image(image, size.tile, size.tile, resample))
    return [overview, *tiles.reshape(-1, size.tile, size.tile, 3)]


def in_square(image: "Image", size: Mosaic, resample: int) -> list[np.ndarray]:
    """The single tile (H,W,3) uint8 of an image in the middle of a square.

    Raises InputError for an image that is too narrow.
    """
    from PIL import Image

    side = max(image.size)
    if side**2 > MOST_OF_SQUARE:
        raise InputError(
            f"an image of {image.width} x {image.height} would become a square of {side**2:,} pixels, "
            f"expected at most {MOST_OF_SQUARE:,}; crop it"
        )
    square = Image.new("RGB", (side, side), size.colour)
    square.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
    return [np.asarray(resized_image(square, size.tile, size.tile, resample))]


def mosaics(images: Sequence["Image"], size: Mosaic, processor: Processor) -> dict[str, np.ndarray]:
    """The tiles (I,n,3,H,W) of images that are each alone, padded with zeros, and the images' sizes (I,2)."""
    rows = [processor.values_of(in_tiles(image, size, processor.resample)) for image in images]
    values = np.zeros((len(rows), max(map(len, rows)), *rows[0].shape[1:]), np.float32)
    for row, tiles in zip(values, rows, strict=True):
        row[: len(tiles)] = tiles
    return {PIXEL_VALUES: values, IMAGE_SIZES: np.array([(image.height, image.width) for image in images])}
