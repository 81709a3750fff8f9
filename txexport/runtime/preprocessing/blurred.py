"""Bytes resized behind a blur against aliasing, of a square around the image; H rows, W columns.

It is what transformers computes with scipy.ndimage (gaussian_filter, then zoom of order 1), to the last bit:
sums are float64 in SciPy's order, and each step's result is rounded to float32.
"""

import numpy as np

REACH = 4.0  # deviations of the blur that are added up
BLOCK = 16  # rows of the result at a time; a photograph is never held as numbers


def blurred(pixels: np.ndarray, levels: np.ndarray, square: bool, height: int, width: int) -> np.ndarray:
    """Bytes (H,W,3), each of them the number in `levels` (256) float32, as (height,width,3) float32.

    With `square`, zeros at the bottom or on the right make the image a square first. Each axis is blurred by
    a Gaussian with a deviation of half of what its length shrinks by, and interpolated linearly; beyond its
    edges it is mirrored. Nothing in the result is outside the range of what it is made of.
    """
    high, wide = [max(pixels.shape[:2])] * 2 if square else pixels.shape[:2]
    rows, columns = _Axis(high, height), _Axis(wide, width)
    result = np.empty((height, width, 3), np.float32)
    for start in range(0, height, BLOCK):
        block = slice(start, start + BLOCK)
        first, stop = rows.extent(block)
        values = np.zeros((stop - first, wide, 3))
        inside = levels[pixels[first:stop]]
        values[: len(inside), : pixels.shape[1]] = inside
        lines = [_blurred(values, 0, rows, indices[block], first) for indices in rows.neighbours]
        total = np.zeros((len(lines[0]), width, 3))
        for line, down in zip(lines, rows.shares, strict=True):
            line = line.astype(np.float64)
            for indices, across in zip(columns.neighbours, columns.shares, strict=True):
                total += _blurred(line, 1, columns, indices) * down[block, None, None] * across[:, None]
        result[block] = total
    ends = levels[[pixels.min(), pixels.max()]].tolist() + [0.0] * ((high, wide) != pixels.shape[:2])
    return result.clip(min(ends), max(ends))


class _Axis:
    """One axis: `side` numbers are blurred, and `size` results each lie between two neighbours."""

    def __init__(self, side: int, size: int):
        self.side = side
        factor = side / size
        deviation = max(0.0, (factor - 1) / 2)
        self.reach = int(REACH * deviation + 0.5)
        offsets = np.arange(-self.reach, self.reach + 1)
        kernel = np.exp(-0.5 / deviation**2 * offsets**2) if self.reach else np.ones(1)
        self.kernel = (kernel / kernel.sum())[: self.reach + 1]  # to its centre; the rest mirrors it
        centres = np.abs((np.arange(size) + 0.5) * factor - 0.5) * (side > 1)
        below = np.floor(centres)
        share = 1.0 - (centres - below)
        self.shares = share, 1.0 - share  # (size) each, of the neighbours
        self.neighbours = below.astype(np.int64), self.mirrored(below.astype(np.int64) + 1)

    def mirrored(self, indices: np.ndarray) -> np.ndarray:
        """Indices within the side."""
        last = max(self.side - 1, 1)
        return np.abs((indices + last) % (2 * last) - last) * (self.side > 1)

    def extent(self, block: slice) -> tuple[int, int]:
        """The first index, and the one behind the last, that a block of results is made of."""
        indices = np.concatenate([neighbours[block] for neighbours in self.neighbours])
        read = self.mirrored(indices[:, None] + np.arange(-self.reach, self.reach + 1))
        return int(read.min()), int(read.max()) + 1


def _blurred(
    values: np.ndarray, dimension: int, axis: _Axis, indices: np.ndarray, first: int = 0
) -> np.ndarray:
    """Values blurred along a dimension, at `indices` of the axis, float32; `values` begin at `first`."""
    total = np.take(values, indices - first, dimension) * axis.kernel[-1]
    for distance, weight in zip(range(axis.reach, 0, -1), axis.kernel, strict=False):
        sides = axis.mirrored(indices - distance), axis.mirrored(indices + distance)
        before, after = (np.take(values, side - first, dimension) for side in sides)
        total += (before + after) * weight
    return total.astype(np.float32)
