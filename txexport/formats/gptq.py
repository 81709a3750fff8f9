"""GPTQ (Frantar et al. 2022): int4 rounding with the least change of a matrix's outputs on given inputs.

Numbers are rounded input by input; those not rounded yet are adjusted to compensate the error, as far as the
inputs X are correlated: by H = X^T X. Scales and zeros are those of `searched`, and each integer is one of
the two neighbours of its number. On inputs outside the calibration this is more accurate than a free choice,
and the possible values of a calibrated matrix are known without the texts.
"""

import numpy as np

from txexport.formats.int4 import LARGEST, pieces, searched

DAMPING = 0.01  # of H's mean diagonal, as in the paper
MOST_STEPS = 0.6  # the largest root mean square error of a block, in steps; else no feedback
TIE = 1e-3  # distance from a tie, in steps, within which another processor may round differently
WHOLE = 64  # size of a triangle that is inverted at once


def feedback(moments: np.ndarray) -> np.ndarray:
    """U (in,in), upper, with U^T U the inverse of the damped H (in,in); inputs that are 0 get a diagonal.

    Raises LinAlgError if H is not finite, as with activations that are not finite.
    """
    damped = moments.astype(np.float64)
    diagonal = np.einsum("ii->i", damped)  # a view
    diagonal[diagonal == 0] = 1
    diagonal += DAMPING * diagonal.mean()
    if not np.isfinite(damped).all():
        raise np.linalg.LinAlgError("H is not finite")
    lower = np.linalg.cholesky(damped[::-1, ::-1])
    return _inverse(np.ascontiguousarray(lower[::-1, ::-1])).astype(np.float32)  # H = R R^T, and U is 1/R


def _inverse(upper: np.ndarray) -> np.ndarray:
    """The inverse of an upper triangular matrix, by recursive halving."""
    half = len(upper) // 2
    if len(upper) <= WHOLE:
        return np.triu(np.linalg.inv(upper))
    one, other = _inverse(upper[:half, :half]), _inverse(upper[half:, half:])
    result = np.zeros_like(upper)
    result[:half, :half], result[half:, half:] = one, other
    result[:half, half:] = -one @ upper[:half, half:] @ other
    return result


def calibrated(rows: np.ndarray, moments: np.ndarray, factor: np.ndarray, block: int) -> np.ndarray | None:
    """Integers (n,in) of float32 rows (n,in) in blocks, for the inputs of H; `factor` is `feedback(H)`.

    None if the integers of the search have a smaller error.
    """
    parts = [searched(some, block) for some in pieces(rows)]
    nearest, zeros, scales = (np.concatenate(part) for part in zip(*parts, strict=True))
    integers = _fed_back(rows, factor, zeros, scales, block)
    errors = []
    for one in (integers, nearest):
        numbers = (one - _spread(zeros.astype(np.float32), block, one)) * _spread(scales, block, one)
        errors.append(output_error(numbers - rows, moments))
    return integers if errors[0] < errors[1] else None


def _spread(of_blocks: np.ndarray, block: int, numbers: np.ndarray) -> np.ndarray:
    return np.repeat(of_blocks, block, axis=1)[:, : numbers.shape[1]]


def _fed_back(
    rows: np.ndarray, factor: np.ndarray, zeros: np.ndarray, scales: np.ndarray, block: int
) -> np.ndarray:
    left = np.array(rows.T, order="C")  # (in,n): the numbers, adjusted for the errors before them
    result = np.empty(rows.shape, np.uint8)
    for number, first in enumerate(range(0, rows.shape[1], block)):
        own = slice(first, min(first + block, rows.shape[1]))
        numbers, scale, zero = rows[:, own].T, scales[:, number], zeros[:, number].astype(np.float32)
        triangle = factor[own, own]
        bounds = between(numbers, scale, zero)
        integers, errors = _rounded(left[own].copy(), triangle, bounds, scale, zero)
        off = _off(integers, numbers, scale, zero)
        if (far := off > MOST_STEPS * step(numbers)).any():
            alone = np.rint(numbers[:, far] / scale[far] + zero[far]).clip(0, LARGEST)
            integers[:, far], errors[:, far] = _rounded(
                left[own][:, far], triangle, (alone, alone), scale[far], zero[far]
            )
        result[:, own] = integers.T
        left[own.stop :] -= factor[own, own.stop :].T @ errors
    return result


def ties_alone(rows: np.ndarray, integers: np.ndarray, factor: np.ndarray, block: int) -> bool:
    """Tell whether integers (n,in) equal those of `calibrated` up to ties, given the preceding ones.

    A tie is a number within TIE steps of the middle between two integers: the last bits of H, which differ
    between processors, may round it either way, and then the errors to compensate differ too.
    """
    _, zeros, scales = (
        np.concatenate(p) for p in zip(*(searched(s, block) for s in pieces(rows)), strict=True)
    )
    left = np.array(rows.T, order="C")
    for number, first in enumerate(range(0, rows.shape[1], block)):
        own = slice(first, min(first + block, rows.shape[1]))
        numbers, scale, zero = rows[:, own].T, scales[:, number], zeros[:, number].astype(np.float32)
        triangle, given = factor[own, own], integers[:, own].T.astype(np.float32)
        low, high = between(numbers, scale, zero)
        alone = np.rint(numbers / scale + zero).clip(0, LARGEST)
        free, _ = _rounded(left[own].copy(), triangle, (low, high), scale, zero)
        share = _off(free, numbers, scale, zero) / (MOST_STEPS * step(numbers))
        _, errors = _rounded(left[own].copy(), triangle, (given, given), scale, zero)
        places = given + errors * np.diagonal(triangle)[:, None] / scale  # before they were rounded
        wanted = np.rint(places).clip(low, high)
        near = np.abs(places - (low + high) / 2) <= TIE
        fed_back = ((given == wanted) | (near & ((given == low) | (given == high)))).all(axis=0)
        plain = (given == alone).all(axis=0)
        if not np.where(share > 1 + TIE, plain, np.where(share < 1 - TIE, fed_back, plain | fed_back)).all():
            return False
        left[own.stop :] -= factor[own, own.stop :].T @ errors
    return True


def _off(integers: np.ndarray, numbers: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """The root mean square error (n) of a block's integers (b,n)."""
    return np.asarray(np.sqrt(np.mean(((integers - zero) * scale - numbers) ** 2, axis=0)))


def between(numbers: np.ndarray, scale: np.ndarray, zero: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The integers below and above numbers (b,n) of a block with scales and zeros (n).

    They are the same on every processor.
    """
    steps = numbers / scale
    low, high = ((to(steps) + zero).clip(0, LARGEST) for to in (np.floor, np.ceil))
    return low, high


def step(numbers: np.ndarray) -> np.ndarray:
    """The scale (n) of the span that blocks (b,n) and 0 cover; infinite for zeros only."""
    span = numbers.max(axis=0).clip(0) - numbers.min(axis=0).clip(None, 0)
    return np.where(span > 0, span / LARGEST, np.inf)


def _rounded(
    numbers: np.ndarray,
    triangle: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    scale: np.ndarray,
    zero: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Integers (b,n) of a block's numbers (b,n), which are overwritten, and the errors to compensate."""
    integers, errors = np.empty_like(numbers), np.empty_like(numbers)
    for i, (low, high) in enumerate(zip(*bounds, strict=True)):
        integers[i] = np.rint(numbers[i] / scale + zero).clip(low, high)
        errors[i] = (numbers[i] - (integers[i] - zero) * scale) / triangle[i, i]
        numbers[i + 1 :] -= triangle[i, i + 1 :, None] * errors[i]
    return integers, errors


def output_error(difference: np.ndarray, moments: np.ndarray) -> float:
    """The squared error of all outputs for the inputs of H, for an error (out,in) of the matrix."""
    return float(np.sum((difference @ moments) * difference, dtype=np.float64))
