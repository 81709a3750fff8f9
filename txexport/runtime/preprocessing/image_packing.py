"""Images of any size as packed patches, in squares of neighbours (Wang et al. 2024, 2.1)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txexport.contracts.names import IMAGE_GRIDS, PIXEL_VALUES
from txexport.errors import InputError, UnsupportedError, shown

LONGEST = 200  # the largest aspect ratio


@dataclass(frozen=True)
class Packing:
    """The side of patches, `merged` by `merged` of which are a square, and the number of `frames` of each.

    Edges are rounded to multiples of a square's; an image of fewer pixels than `least` or more than `most`
    is scaled.
    """

    side: int
    merged: int
    frames: int
    least: int
    most: int

    def resized(self, height: int, width: int) -> tuple[int, int]:
        """Height and width of whole squares. Raises InputError for an image that is too narrow."""
        if max(height, width) > LONGEST * min(height, width):
            raise InputError(f"an image of {width} x {height} has an aspect ratio above {LONGEST}; crop it")
        square = self.side * self.merged
        rounded = round(height / square) * square, round(width / square) * square
        return within(self.least, self.most, square, rounded, (height, width))


def within(
    least: int, most: int, square: int, rounded: tuple[int, int], size: tuple[int, int]
) -> tuple[int, int]:
    """Height and width in whole squares of `square` pixels a side, with `least` to `most` pixels in all.

    They are the `rounded` ones if these are within the bounds, or those of an image of `size`, scaled.
    """
    pixels = math.prod(size)
    if math.prod(rounded) > most:
        scale = math.sqrt(pixels / most)
        high, wide = (max(square, math.floor(edge / scale / square) * square) for edge in size)
        return high, wide
    if math.prod(rounded) < least:
        scale = math.sqrt(least / pixels)
        high, wide = (math.ceil(edge * scale / square) * square for edge in size)
        return high, wide
    return rounded


@dataclass(frozen=True)
class Patches:
    """The patches (N,numbers) float32 of an image, `rows` by `columns`, in squares of `merged` a side."""

    values: np.ndarray
    rows: int
    columns: int
    merged: int

    @property
    def vectors(self) -> int:
        """The number of squares, each of which is a vector of a decoder."""
        return self.rows * self.columns // self.merged**2


def packing_of(options: Mapping[str, Any]) -> Packing:
    """The packing in a processor's settings. Raises UnsupportedError for other values."""
    size = options["size"] if isinstance(options["size"], Mapping) else {}
    least = options.get("min_pixels") or size.get("shortest_edge")
    most = options.get("max_pixels") or size.get("longest_edge")
    values = [options[name] for name in ("patch_size", "merge_size", "temporal_patch_size")]
    numbers = [value for value in (*values, least, most) if type(value) is int and value > 0]
    if len(numbers) < 5 or numbers[3] > numbers[4]:
        raise UnsupportedError(
            f"image processor: patch_size, merge_size and temporal_patch_size {shown(values)} for "
            f"{shown(least)} to {shown(most)} pixels are not supported; expected numbers from 1"
        )
    if not options["do_resize"]:
        raise UnsupportedError(
            "image processor: do_resize false is not supported for patches; set it to true"
        )
    side, merged, frames, *bounds = numbers
    return Packing(side, merged, frames, *bounds)


def patches_of(values: np.ndarray, size: Packing) -> Patches:
    """The patches of an image's values (channels,height,width), of whole squares."""
    channels, height, width = values.shape
    side, merged = size.side, size.merged
    rows, columns = height // side, width // side
    apart = values.reshape(channels, rows // merged, merged, side, columns // merged, merged, side)
    squares = apart.transpose(1, 4, 2, 5, 0, 3, 6)  # (R, C, merged, merged, channels, side, side)
    frames = np.repeat(squares[:, :, :, :, :, None], size.frames, axis=5)
    return Patches(frames.reshape(rows * columns, -1), rows, columns, merged)


def packed(images: Sequence[Patches]) -> dict[str, np.ndarray]:
    """The patches (N,numbers) of all images, and frames, rows and columns (I,3) of each."""
    grids = np.array([(1, one.rows, one.columns) for one in images], np.int64)
    return {PIXEL_VALUES: np.concatenate([one.values for one in images]), IMAGE_GRIDS: grids}
