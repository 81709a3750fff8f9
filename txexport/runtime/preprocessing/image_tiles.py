"""Images cut into square tiles, each of which a model reads as an image (Laurençon et al. 2024, 2.2.3)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from txexport.contracts.names import PIXEL_ATTENTION_MASK, PIXEL_VALUES
from txexport.errors import UnsupportedError, shown
from txexport.runtime.preprocessing.image_resizing import resized_image

if TYPE_CHECKING:
    from PIL.Image import Image

MOST_PIXELS = 4096  # of an edge
MOST_TILES = 64


@dataclass(frozen=True)
class Tiled:
    """The side of tiles, and the longer edge of an image before it is cut, None for its own.

    Unless it `splits` images, each becomes one tile.
    """

    side: int
    longest: int | None
    splits: bool


@dataclass(frozen=True)
class Canvas:
    """The height and width of tiles, and the least and most that the image's canvas has.

    In a prompt an image is cut into tiles; the processor alone cuts it if it `splits` images.
    """

    height: int
    width: int
    least: int
    most: int
    splits: bool


@dataclass(frozen=True)
class Tiles:
    """The tiles (n,3,H,W) float32 of an image: row by row, then the whole; without rows, that alone.

    With the `grid` of a mosaic, the whole is the first.
    """

    values: np.ndarray
    rows: int = 0
    columns: int = 0
    grid: tuple[int, ...] | None = None


def tiled_of(options: Mapping[str, Any]) -> Tiled:
    """The tiles in a processor's settings. Raises UnsupportedError for other values."""
    longest, side = (_edge(name, options[name]) for name in ("size", "max_image_size"))
    splits = options["do_image_splitting"]
    if not isinstance(splits, bool):
        raise UnsupportedError(f"image processor: do_image_splitting {shown(splits)} is not supported")
    return Tiled(side, longest if options["do_resize"] else None, splits)


def canvas_of(options: Mapping[str, Any]) -> Canvas:
    """The canvas in a processor's settings. Raises UnsupportedError for other values."""
    size, least, most = (options[name] for name in ("size", "min_patches", "max_patches"))
    height, width = (size.get("height"), size.get("width")) if isinstance(size, Mapping) else (None, None)
    if not (_is_side(height) and _is_side(width)):
        raise UnsupportedError(
            f"image processor: size {shown(size)} is not supported; expected a height and a width of at most "
            f"{MOST_PIXELS:,}"
        )
    if type(least) is not int or type(most) is not int or not 1 <= least <= most <= MOST_TILES:
        raise UnsupportedError(
            f"image processor: {shown(least)} to {shown(most)} tiles are not supported; expected 1 to "
            f"{MOST_TILES}"
        )
    if not isinstance(options["crop_to_patches"], bool) or not options["do_resize"]:
        raise UnsupportedError("image processor: crop_to_patches must be true or false, and do_resize true")
    return Canvas(height, width, least, most, options["crop_to_patches"])


def _is_side(value: Any) -> TypeGuard[int]:
    return type(value) is int and 1 <= value <= MOST_PIXELS


def _edge(name: str, size: Any) -> int:
    edge = size.get("longest_edge") if isinstance(size, Mapping) else None
    if not _is_side(edge):
        raise UnsupportedError(
            f"image processor: {name} {shown(size)} is not supported; expected a longest_edge of at most "
            f"{MOST_PIXELS:,}"
        )
    return edge


def tiles(image: "Image", size: Tiled, resample: int) -> tuple[list[np.ndarray], int, int]:
    """The tiles (H,W,3) uint8 of an image, and the rows and columns of all but the last; 0 of a single one.

    Raises InputError for an image of too many.
    """
    if size.longest is not None:
        image = resized_image(image, *_longest(image.height, image.width, size.longest), resample)
    if not size.splits:
        return [np.asarray(resized_image(image, size.side, size.side, resample))], 0, 0
    image = resized_image(image, *_whole(image.height, image.width, size.side), resample)
    rows, columns = image.height // size.side, image.width // size.side
    if max(rows, columns) == 1:
        return [np.asarray(image)], 0, 0
    pixels = np.asarray(image).reshape(rows, size.side, columns, size.side, 3).transpose(0, 2, 1, 3, 4)
    overview = np.asarray(resized_image(image, size.side, size.side, resample))
    return [*pixels.reshape(-1, size.side, size.side, 3), overview], rows, columns


def on_canvas(image: "Image", size: Canvas, resample: int) -> list[np.ndarray]:
    """The tiles (H,W,3) uint8 of the canvas nearest in shape, row by row, and all of it behind several."""
    area = size.height * size.width
    columns, rows = nearest_grid(image.height, image.width, size.least, size.most, area)
    squares = in_grid(image, (rows, columns), (size.height, size.width), resample)
    overview = (
        [] if rows * columns == 1 else [np.asarray(resized_image(image, size.height, size.width, resample))]
    )
    return [*squares, *overview]


def in_grid(image: "Image", grid: tuple[int, int], size: tuple[int, int], resample: int) -> list[np.ndarray]:
    """The tiles (H,W,3) uint8 of an image resized to rows and columns of tiles of a `size`, row by row."""
    (rows, columns), (high, wide) = grid, size
    pixels = np.asarray(resized_image(image, rows * high, columns * wide, resample))
    tiles = pixels.reshape(rows, high, columns, wide, 3).transpose(0, 2, 1, 3, 4)
    return [*tiles.reshape(-1, high, wide, 3)]


def nearest_grid(height: int, width: int, least: int, most: int, area: int) -> tuple[int, int]:
    """Columns and rows of the canvas nearest in shape, of `least` to `most` tiles of `area` pixels.

    Of equally near ones, the largest below twice the image.
    """
    counts = range(1, most + 1)
    grids = [(across, down) for across in counts for down in counts]
    grids = [one for one in grids if least <= one[0] * one[1] <= most]
    best, nearest = (1, 1), math.inf
    for across, down in sorted(grids, key=lambda one: one[0] * one[1]):
        difference = abs(width / height - across / down)
        roomy = width * height > 0.5 * area * across * down
        if difference < nearest or (difference == nearest and roomy):
            best, nearest = (across, down), difference
    return best


def of_prompt(images: Sequence[Tiles]) -> dict[str, np.ndarray]:
    """The tiles (1,I,3,H,W) of all images of a prompt, and the mask (1,I,H,W) of their pixels."""
    values = np.concatenate([one.values for one in images])[None]
    return {PIXEL_VALUES: values, PIXEL_ATTENTION_MASK: np.ones(np.delete(values.shape, 2), np.int64)}


def _longest(height: int, width: int, longest: int) -> tuple[int, int]:
    """Height and width with that longer edge, the other even."""
    aspect = width / height
    if width >= height:
        high, wide = int(longest / aspect), longest
        high += high % 2
    else:
        high, wide = longest, int(longest * aspect)
        wide += wide % 2
    return max(high, 1), max(wide, 1)


def _whole(height: int, width: int, side: int) -> tuple[int, int]:
    """Height and width of whole tiles: the longer edge rounded up, then the other at the same aspect."""
    aspect = width / height
    if width >= height:
        wide = math.ceil(width / side) * side
        return math.ceil(int(wide / aspect) / side) * side, wide
    high = math.ceil(height / side) * side
    return high, math.ceil(int(high * aspect) / side) * side
