"""The input `tile_grid` of a graph that reads an image as a whole and in tiles (Liu et al. 2024, LLaVA-NeXT).

Its numbers are the rows and columns of tiles on the image's canvas, those of their vectors without the
padding around the image, and those of the vectors when a large map is reduced.
"""

import math
from collections.abc import Sequence

SINGLE = (1, 0, 1, 0, 1, 0)  # of an image that is not cut
REDUCED = 1.1  # how much longer than the most a map's sides must be to be reduced


def grid_of(
    size: tuple[int, int], canvases: Sequence[tuple[int, int]], tile: int, side: int, most: int | None
) -> tuple[int, ...]:
    """The tile_grid of an image of a `size`, its height and width in pixels.

    It is put on one of the `canvases`; a tile of `tile` pixels a side has `side` vectors a side. A map of
    more vectors than those of `most` tiles is reduced, None for never.
    """
    height, width = size
    rows, columns = (edge // tile for edge in canvas_of(height, width, canvases))
    high, wide = rows * side, columns * side
    if width / height > wide / high:
        high -= (high - int(round(height * (wide / width), 7))) // 2 * 2
    else:
        wide -= (wide - int(round(width * (high / height), 7))) // 2 * 2
    ratio = 0.0 if most is None else math.sqrt(high * wide / (most * side**2))
    last = (int(high // ratio), int(wide // ratio)) if ratio > REDUCED else (high, wide)
    return rows, columns, high, wide, *last


def vectors_of(grid: Sequence[int], side: int) -> int:
    """The number of vectors of an image with that tile_grid, of tiles of `side` vectors a side."""
    return side**2 + grid[4] * (grid[5] + 1)


def canvas_of(height: int, width: int, canvases: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The canvas on which an image keeps most of its pixels; of equal ones, that with the least padding."""
    best, most, padding = canvases[0], 0, math.inf
    for high, wide in canvases:
        scale = min(wide / width, high / height)
        pixels = min(int(width * scale) * int(height * scale), width * height)
        if pixels > most or (pixels == most and high * wide - pixels < padding):
            best, most, padding = (high, wide), pixels, high * wide - pixels
    return best


def grids_up_to(most: int) -> list[tuple[int, int]]:
    """All rows and columns of up to `most` tiles; the number of an aspect ratio counts them from 1."""
    sides = range(1, most + 1)
    return [(rows, columns) for rows in sides for columns in sides if rows * columns <= most]
