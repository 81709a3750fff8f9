"""Images of any shape as patches, the large ones split into tiles, as in LFM2-VL (Amini et al. 2025)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from txexport.contracts.names import PIXEL_ATTENTION_MASK, PIXEL_VALUES, SPATIAL_SHAPES
from txexport.errors import InputError, UnsupportedError, shown
from txexport.runtime.preprocessing.image_packing import Patches, within
from txexport.runtime.preprocessing.image_resizing import resized_image
from txexport.runtime.preprocessing.image_tiles import MOST_PIXELS, MOST_TILES, in_grid, nearest_grid

if TYPE_CHECKING:
    from PIL.Image import Image

NUMBERS = ("encoder_patch_size", "downsample_factor", "min_image_tokens", "max_image_tokens", "tile_size")


@dataclass(frozen=True)
class Splitting:
    """The side of patches, `merged` by `merged` of which are a square, and the squares of an image.

    An image of fewer than `least` squares or more than `most` is scaled. One of more than `most` times
    `tolerance` becomes `least_tiles` to `most_tiles` tiles of `tile` pixels a side, and if it has an
    `overview` all of it after them; `most_tiles` of 1 splits none.
    """

    side: int
    merged: int
    least: int
    most: int
    tile: int
    least_tiles: int
    most_tiles: int
    tolerance: float
    overview: bool

    @property
    def square(self) -> int:
        """The side of a square of patches, in pixels."""
        return self.side * self.merged

    @property
    def most_patches(self) -> int:
        """The most patches of an image or a tile."""
        split = (self.tile // self.side) ** 2 if self.most_tiles > 1 else 0
        return max(self.most * self.merged**2, split)

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of whole squares, as few and as many as there may be."""
        square, area = self.square, self.square**2
        high, wide = (max(square, round(edge / square) * square) for edge in (height, width))
        return within(self.least * area, self.most * area, square, (high, wide), (height, width))

    def is_split(self, height: int, width: int) -> bool:
        """Tell whether an image is too large for one tile."""
        high, wide = (max(self.side, round(edge / self.square) * self.square) for edge in (height, width))
        return self.most_tiles > 1 and high * wide > self.most * self.square**2 * self.tolerance


@dataclass(frozen=True)
class SplitImage:
    """The patches of an image's tiles, row by row, then of all of it; without rows, the latter alone.

    Those of each are row by row.
    """

    parts: tuple[Patches, ...]
    rows: int = 0
    columns: int = 0


def splitting_of(options: Mapping[str, Any]) -> Splitting:
    """The splitting in a processor's settings. Raises UnsupportedError for other values."""
    values = [options[name] for name in NUMBERS]
    numbers = [value for value in values if type(value) is int and 1 <= value <= MOST_PIXELS]
    if len(numbers) < len(NUMBERS) or numbers[2] > numbers[3] or numbers[4] % (numbers[0] * numbers[1]):
        raise UnsupportedError(
            f"image processor: {', '.join(NUMBERS)} {shown(values)} are not supported; expected numbers from "
            "1, the least tokens first, and a tile of whole squares of patches"
        )
    splits, overview = (options[name] for name in ("do_image_splitting", "use_thumbnail"))
    tolerance = options["max_pixels_tolerance"]
    least, most = (options[name] for name in ("min_tiles", "max_tiles"))
    if not splits:
        least = most = 1
    tiles = type(least) is int and type(most) is int and 1 <= least <= most <= MOST_TILES
    if not tiles or (least == 1 and most > 1):  # a single tile has another size than the original counts
        raise UnsupportedError(
            f"image processor: {shown(least)} to {shown(most)} tiles are not supported; expected 2 to "
            f"{MOST_TILES}, or 1 alone"
        )
    if not isinstance(overview, bool) or not isinstance(tolerance, int | float) or not tolerance > 0:
        raise UnsupportedError(
            f"image processor: use_thumbnail {shown(overview)} and max_pixels_tolerance {shown(tolerance)} "
            "are not supported; expected true or false, and a number above 0"
        )
    side, merged, fewest, largest, tile = numbers
    return Splitting(side, merged, fewest, largest, tile, least, most, float(tolerance), overview)


def squares_of(
    image: "Image", size: Splitting, resample: int
) -> tuple[list[np.ndarray], list[np.ndarray], int, int]:
    """The tiles and the overview (H,W,3) uint8 of an image, and rows and columns of tiles, 0 without any.

    Raises InputError for an image that is so narrow that it has more patches than there is room for.
    """
    height, width = image.height, image.width
    high, wide = size.resized(height, width)
    patches = high * wide // size.side**2
    if patches > size.most_patches:
        raise InputError(
            f"an image of {width} x {height} would have {patches:,} patches, expected at most "
            f"{size.most_patches:,}; it is too narrow: crop it"
        )
    if not size.is_split(height, width):
        return [], [np.asarray(resized_image(image, high, wide, resample))], 0, 0
    columns, rows = nearest_grid(height, width, size.least_tiles, size.most_tiles, size.tile**2)
    tiles = in_grid(image, (rows, columns), (size.tile, size.tile), resample)
    overview = [np.asarray(resized_image(image, high, wide, resample))] if size.overview else []
    return tiles, overview, rows, columns


def patches_in_rows(values: np.ndarray, size: Splitting) -> Patches:
    """The patches of values (channels,height,width) of whole squares, row by row."""
    side, (channels, height, width) = size.side, values.shape
    rows, columns = height // side, width // side
    apart = values.reshape(channels, rows, side, columns, side).transpose(1, 3, 2, 4, 0)
    return Patches(apart.reshape(rows * columns, -1), rows, columns, size.merged)


def masked(parts: Sequence[Patches], most: int | None = None) -> dict[str, np.ndarray]:
    """The patches (n,most,numbers) of parts, by default as many as one has, their mask, rows and columns."""
    most = max(len(part.values) for part in parts) if most is None else most
    values = np.zeros((len(parts), most, parts[0].values.shape[1]), np.float32)
    for row, part in zip(values, parts, strict=True):
        row[: len(part.values)] = part.values
    shapes = np.array([(part.rows, part.columns) for part in parts], np.int64)
    mask = np.arange(most) < shapes.prod(axis=1)[:, None]
    return {PIXEL_VALUES: values, PIXEL_ATTENTION_MASK: mask.astype(np.int64), SPATIAL_SHAPES: shapes}
