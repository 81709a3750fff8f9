"""Error bounds for float32 outputs.

An error is relative to the size of its tensor, so that small outputs have bounds as tight as large ones. The
bound is RELATIVE, or a few times the rounding of float32 where that is larger: two orders of summation in
float32 differ by as much. Rounding is the larger of two measures: the difference of a reference in float32
and in float64, which depends on the processor and may be small by chance; and the effect of errors of a last
bit of float32 on the reference in float64.
"""

import numpy as np

from txexport.formats import FLOAT32

RELATIVE = FLOAT32.relative  # relative to a tensor's size
REAL = 10 * RELATIVE  # if the rounding cannot be measured
TINY_PARAMETERS = 1_000_000
ROUNDINGS = 8.0  # the maximum of few numbers varies: by up to a factor of 4.2 between cases
MOST = 1e-2  # rounding excuses no larger error: a choice has flipped, or float32 is useless
MOST_OF_SCALAR = 0.5  # of a single number, whose terms may nearly cancel; its sign stays
LEAST_LOSS = 0.05  # the least bound of a stored answer where graphs round activations
OUTLIER = 10.0  # times the median: larger magnitudes are clipped to it


def tolerance(parameters: int) -> float:
    """The bound for a float32 model of that many parameters without a reference in float64."""
    return RELATIVE if parameters < TINY_PARAMETERS else REAL


def bound(relative: float, rounding: float | None, scalar: bool = False) -> float:
    """The largest error allowed of an output with that `rounding` in float32, None if it is unknown.

    Both are relative to the tensor's size; of a `scalar`, a single number without a vector, that says little.
    """
    if rounding is None or not np.isfinite(rounding):
        return relative
    return max(relative, min(ROUNDINGS * rounding, MOST_OF_SCALAR if scalar else MOST))


def size(expected: np.ndarray) -> np.ndarray:
    """The size that each number's error is relative to: its magnitude, or its vector's mean if larger.

    Vectors lie along the last axis. Outliers, masks of -1e9 and infinities do not count for the mean: they
    would hide errors of the other numbers.
    """
    magnitude = np.abs(expected)
    if is_scalar(expected):
        return magnitude
    counts = np.isfinite(magnitude) & (magnitude > 0)
    bounded = np.minimum(magnitude, OUTLIER * _median(magnitude, counts))
    clipped = np.where(np.isfinite(magnitude), bounded, 0.0)
    mean = clipped.mean(axis=-1, keepdims=True)
    least = np.finfo(np.float32).eps * mean.mean()  # of vectors of zeros among others
    return np.maximum(magnitude, np.maximum(mean, least))


def _median(numbers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The median of each vector's numbers where `counts`, 0 where none does; faster than np.nanmedian."""
    if counts.all():  # nearly always, and twice as fast
        count = numbers.shape[-1]
        low, high = (count - 1) // 2, count // 2
        ordered = np.partition(numbers, [low, high], axis=-1)
        return (ordered[..., low, None] + ordered[..., high, None]) / 2
    ordered = np.sort(np.where(counts, numbers, np.inf), axis=-1)
    count = counts.sum(axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(count - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ordered, count // 2, axis=-1)
    return np.where(count, (low + high) / 2, 0.0)


def is_scalar(expected: np.ndarray) -> bool:
    """True if every number stands alone, without a vector around it."""
    return expected.ndim == 0 or expected.shape[-1] == 1


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error relative to `size`; infinite if shapes differ or a number is not finite."""
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    wide = expected.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        errors = np.abs(found - wide) / size(wide)
    errors = np.where(found == expected, 0.0, errors)
    return float(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).max())
