"""Bilinear interpolation between the centres of pixels, without antialias, as PyTorch has it."""

import numpy as np


def between(count: int, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each of `size` places the two of `count` values around it, and the share of the second."""
    source = (np.arange(size, dtype=np.float32) + np.float32(0.5)) * np.float32(count / size)
    source = np.maximum(source - np.float32(0.5), 0)
    before = np.minimum(source.astype(np.int64), count - 1)
    return before, np.minimum(before + 1, count - 1), (source - before).astype(np.float32)


def bilinear(
    values: np.ndarray, height: int, width: int, rows: int | None = None, columns: int | None = None
) -> np.ndarray:
    """Values (...,h,w) float32 interpolated to (...,height,width): the first `rows` and `columns` of it."""
    above, below, down = (part[:rows] for part in between(values.shape[-2], height))
    left, right, across = (part[:columns] for part in between(values.shape[-1], width))
    upper = values[..., above, :]
    wide = upper + (values[..., below, :] - upper) * down[:, None]
    near = wide[..., left]
    result: np.ndarray = near + (wide[..., right] - near) * across
    return result
