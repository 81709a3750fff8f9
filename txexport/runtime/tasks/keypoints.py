"""The highest places of heat maps, between their pixels; K maps of h rows and w columns.

Each map is blurred, and a parabola is laid through its logarithm around the highest pixel (Zhang et al. 2020,
3.2; Huang et al. 2020). The arithmetic is that of transformers, with scipy.ndimage.gaussian_filter, to the
last bit.
"""

import numpy as np

DEVIATION, REACH = 0.8, 5  # of the blur, in pixels
LEAST, MOST = 0.001, 50  # what blurred heights are kept between, before their logarithm
LITTLE = np.finfo(np.float32).eps  # added to the curvature, which may be none


def refined(heat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """heat (K,h,w) float32 -> places (K,2), x and y in pixels of a map, and its heights there (K), float32.

    A map without a height above 0 has its place left of its first pixel and above it.
    """
    count, _, width = heat.shape
    flat = heat.reshape(count, -1)
    best, scores = flat.argmax(axis=1), flat.max(axis=1)
    points = np.stack([best % width, best // width], axis=1).astype(np.float32)
    points = np.where(scores[:, None] > 0.0, points, np.float32(-1))
    logs = np.log(np.clip(_blurred(_blurred(heat, 1), 2), LEAST, MOST))
    padded = np.pad(logs, ((0, 0), (2, 2), (2, 2)), mode="edge")  # two pixels: the place may be outside
    columns, rows = (points[:, axis].astype(np.int64) + 2 for axis in (0, 1))
    maps = np.arange(count)

    def at(right: int, down: int) -> np.ndarray:
        return padded[maps, rows + down, columns + right]

    here, right, left, below, above = at(0, 0), at(1, 0), at(-1, 0), at(0, 1), at(0, -1)
    slope = np.stack([0.5 * (right - left), 0.5 * (below - above)], axis=1)[:, :, None]  # (K, 2, 1)
    across, down = right - 2 * here + left, below - 2 * here + above
    both = 0.5 * (at(1, 1) - right - below + here + here - left - above + at(-1, -1))
    curvature = np.stack([across, both, both, down], axis=1).reshape(count, 2, 2)
    inverse = np.linalg.inv(curvature + LITTLE * np.eye(2))
    points -= np.einsum("imn,ink->imk", inverse, slope)[:, :, 0]
    return points, scores


def _blurred(values: np.ndarray, axis: int) -> np.ndarray:
    """Maps (K,h,w) blurred along an axis, mirrored beyond its edges; sums are float64, results float32."""
    offsets = np.arange(-REACH, REACH + 1)
    kernel = np.exp(-0.5 / DEVIATION**2 * offsets**2)
    kernel = kernel / kernel.sum()
    around = [(REACH, REACH) if one == axis else (0, 0) for one in range(3)]
    padded, size = np.pad(values.astype(np.float64), around, mode="symmetric"), values.shape[axis]

    def at(offset: int) -> np.ndarray:
        start = REACH + offset
        return np.take(padded, np.arange(start, start + size), axis)

    total = at(0) * kernel[REACH]
    for distance in range(REACH, 0, -1):
        total += (at(-distance) + at(distance)) * kernel[REACH - distance]
    return total.astype(np.float32)
