"""How near is near enough: what float32 can promise of a tensor.

An error is measured in a tensor's own size, so that tiny outputs are held as tightly as large ones. The bound
is RELATIVE, and where an original's own float32 is further than that from the same original in float64, a
few times that rounding: two ways to sum in float32 are no nearer to each other. Rounding is what the float32
of an original is off by here, or what its float64 moves by where numbers are off by a last bit of float32,
whichever is larger: the former is of one processor, and may be small by chance.
"""

import numpy as np

from txexport.formats import FLOAT32

RELATIVE = FLOAT32.relative  # of a tensor's size
REAL = 10 * RELATIVE  # where nothing tells how much of an error is rounding
TINY_PARAMETERS = 1_000_000
ROUNDINGS = 8.0  # the largest of few numbers is no steady measure: of one case it was up to 4.2 of another's
MOST = 1e-2  # beyond it rounding excuses nothing: a choice has tipped over, or float32 is no use there
MOST_OF_SCALAR = 0.5  # of a number alone, whose sum may all but cancel; its sign stays
OUTLIER = 10.0  # times the median: what is larger counts as that much of a vector's size


def tolerance(parameters: int) -> float:
    """The bound for a float32 model of that many parameters, of which there is no original in float64."""
    return RELATIVE if parameters < TINY_PARAMETERS else REAL


def bound(relative: float, rounding: float | None, scalar: bool = False) -> float:
    """The largest error allowed of an output that has `rounding` in float32, None where that is not known.

    Both are in the tensor's size, of which a `scalar`, a number without a vector around it, says little.
    """
    if rounding is None or not np.isfinite(rounding):
        return relative
    return max(relative, min(ROUNDINGS * rounding, MOST_OF_SCALAR if scalar else MOST))


def size(expected: np.ndarray) -> np.ndarray:
    """What each number's error is measured in: itself, or the mean of its vector where that is larger.

    The vectors are those of the last axis, in which outliers, masks of -1e9 and infinity do not count: they
    would hide errors in the others.
    """
    magnitude = np.abs(expected)
    if is_scalar(expected):
        return magnitude
    counts = np.isfinite(magnitude) & (magnitude > 0)
    bounded = np.minimum(magnitude, OUTLIER * _median(magnitude, counts))
    clipped = np.where(np.isfinite(magnitude), bounded, 0.0)
    mean = clipped.mean(axis=-1, keepdims=True)
    whole = np.finfo(np.float32).eps * mean.mean()  # of vectors of zeros among others
    return np.maximum(magnitude, np.maximum(mean, whole))


def _median(numbers: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The median of each vector's numbers that count, 0 where none does, faster than np.nanmedian."""
    if counts.all():  # as nearly always: half of the time
        many = numbers.shape[-1]
        low, high = (many - 1) // 2, many // 2
        ordered = np.partition(numbers, [low, high], axis=-1)
        return (ordered[..., low, None] + ordered[..., high, None]) / 2
    ordered = np.sort(np.where(counts, numbers, np.inf), axis=-1)
    many = counts.sum(axis=-1, keepdims=True)
    low = np.take_along_axis(ordered, np.maximum(many - 1, 0) // 2, axis=-1)
    high = np.take_along_axis(ordered, many // 2, axis=-1)
    return np.where(many, (low + high) / 2, 0.0)


def is_scalar(expected: np.ndarray) -> bool:
    """Tell whether every number stands alone, without a vector around it."""
    return expected.ndim == 0 or expected.shape[-1] == 1


def largest_error(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest error in the expected numbers' size; infinite where a shape differs or a number is none."""
    if found.shape != expected.shape:
        return float("inf")
    if not expected.size:
        return 0.0
    wide = expected.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        errors = np.abs(found - wide) / size(wide)
    errors = np.where(found == expected, 0.0, errors)
    return float(np.nan_to_num(errors, nan=np.inf, posinf=np.inf).max())
