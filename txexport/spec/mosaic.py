"""Tiles of an image of any size, put together to one map of vectors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from txexport.errors import SpecError, positive

SINGLE = (1, 0, 1, 0, 1, 0)  # the grid of an image that is not cut
# Heights and widths of the first releases of LLaVA-NeXT, and of LLaVA-OneVision.
CANVASES = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
LARGER_CANVASES = [[384 * rows, 384 * columns] for rows in range(1, 7) for columns in range(1, 7)]
REDUCED = 1.1  # how much longer than the most a map's sides must be to be reduced


@dataclass(frozen=True)
class MosaicSpec:
    """An image as a whole and in tiles on a canvas (Liu et al. 2024, LLaVA-NeXT).

    Each tile, of `tile` pixels a side, becomes `side` by `side` vectors. Those of all tiles are one map,
    without the padding around the image, and a learned vector ends each row; the whole image's come first.
    The canvas is one of `canvases`, heights and widths in pixels. With `most`, a map of more vectors than
    those of `most` tiles is reduced, and an image that is not alone in its prompt is one tile (Li et al.
    2024, 3.2).
    """

    tile: int
    side: int
    canvases: tuple[tuple[int, int], ...]
    most: int | None = None

    def __post_init__(self) -> None:
        positive(self, "tile", "side", *(() if self.most is None else ("most",)))
        if not self.canvases or any(edge < 1 or edge % self.tile for one in self.canvases for edge in one):
            raise SpecError(f"MosaicSpec: canvases are {self.canvases}, expected multiples of {self.tile}")

    def grid(self, height: int, width: int) -> tuple[int, ...]:
        """The grid of an image of `height` by `width` pixels.

        Rows and columns of its tiles, then of their vectors without padding, then of these when reduced.
        """
        rows, columns = (edge // self.tile for edge in canvas_of(height, width, self.canvases))
        high, wide = rows * self.side, columns * self.side
        if width / height > wide / high:
            high -= (high - int(round(height * (wide / width), 7))) // 2 * 2
        else:
            wide -= (wide - int(round(width * (high / height), 7))) // 2 * 2
        ratio = 0.0 if self.most is None else math.sqrt(high * wide / (self.most * self.side**2))
        last = (int(high // ratio), int(wide // ratio)) if ratio > REDUCED else (high, wide)
        return rows, columns, high, wide, *last


def vectors_of(grid: Sequence[int], side: int) -> int:
    """The number of vectors of an image with that grid, of tiles of `side` vectors a side."""
    return side**2 + grid[4] * (grid[5] + 1)


def canvas_of(height: int, width: int, canvases: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The canvas on which an image keeps most of its pixels; of equal ones, that with the least padding."""
    best, kept, padding = canvases[0], 0, math.inf
    for high, wide in canvases:
        scale = min(wide / width, high / height)
        pixels = min(int(width * scale) * int(height * scale), width * height)
        if pixels > kept or (pixels == kept and high * wide - pixels < padding):
            best, kept, padding = (high, wide), pixels, high * wide - pixels
    return best
