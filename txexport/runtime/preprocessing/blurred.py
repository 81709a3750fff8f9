"""Values resized behind a blur against aliasing, of a square around the image; H rows, W columns."""

import numpy as np

REACH = 4.0  # deviations of the blur that are added up


def blurred(values: np.ndarray, square: bool, height: int, width: int) -> np.ndarray:
    """Values (H,W,3) of any type resized to (height,width,3) float32.

    With `square`, zeros at the bottom or on the right make the image a square first. Each axis is blurred by
    a Gaussian with a deviation of half of what its length shrinks by, and interpolated linearly; beyond its
    edges it is mirrored. It is as scipy.ndimage computes it for transformers, up to rounding.
    """
    sides = [max(values.shape[:2])] * 2 if square else values.shape[:2]
    result = values
    for axis, (side, size) in enumerate(zip(sides, (height, width), strict=True)):
        result = _along(axis, result, side, size)
    return result.astype(np.float32)


def _along(axis: int, values: np.ndarray, side: int, size: int) -> np.ndarray:
    """Values with zeros up to `side` numbers along an axis, resized to `size` of them."""
    indices, weights = _taps(side, size)  # (size, K) each
    extent = values.shape[axis]
    weights = np.where(indices < extent, weights, 0)
    indices = np.minimum(indices, extent - 1)
    shape = [1, 1, 1]
    shape[axis] = size
    result = np.zeros([*values.shape[:axis], size, *values.shape[axis + 1 :]])
    for tap in range(indices.shape[1]):
        result += np.take(values, indices[:, tap], axis) * weights[:, tap].reshape(shape)
    return result


def _taps(side: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The K indices that each of `size` results reads of `side` ones, and their weights, (size, K) each."""
    factor = side / size
    deviation = max(0.0, (factor - 1) / 2)
    reach = int(REACH * deviation + 0.5)
    kernel = np.exp(-0.5 * (np.arange(-reach, reach + 1) / max(deviation, 1e-12)) ** 2)
    kernel /= kernel.sum()
    centres = (np.arange(size) + 0.5) * factor - 0.5
    lower = np.floor(centres)
    share = (centres - lower)[:, None]
    weights = np.pad(kernel, (0, 1)) * (1 - share) + np.pad(kernel, (1, 0)) * share  # of two neighbours
    indices = lower[:, None].astype(np.int64) + np.arange(-reach, reach + 2)
    period = max(2 * (side - 1), 1)
    indices = np.abs((indices + side - 1) % period - (side - 1)) if side > 1 else indices * 0
    return indices, weights
