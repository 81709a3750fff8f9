"""GPTQ (Frantar et al. 2022): a matrix rounded to int4 so that what it gives for some inputs changes least.

Input by input the numbers are rounded, and those not rounded yet make up for the error, as far as the inputs
X vary together: by H = X^T X. Scales and zeros are those of `searched`, and each integer one of the two that
its number lies between: of the inputs that were not seen this keeps more than more freedom does, and what a
calibrated matrix may hold is known without them.
"""

import numpy as np

from txexport.formats.int4 import LARGEST, pieces, searched

DAMPING = 0.01  # of H's mean diagonal, as in the paper
MOST_STEPS = 0.6  # that a block's numbers may be off by, as a root mean square; else each is rounded alone
TIE = 1e-3  # of a step, within which another processor may round otherwise
WHOLE = 64  # numbers of a triangle that is inverted at once


def feedback(moments: np.ndarray) -> np.ndarray:
    """U (in,in), upper, of which U^T U is the inverse of H (in,in), damped; an input that is 0 is alone.

    Raises LinAlgError for what is no H, as of activations that are not finite.
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
    """The inverse of an upper triangle, by halves."""
    half = len(upper) // 2
    if len(upper) <= WHOLE:
        return np.triu(np.linalg.inv(upper))
    one, other = _inverse(upper[:half, :half]), _inverse(upper[half:, half:])
    result = np.zeros_like(upper)
    result[:half, :half], result[half:, half:] = one, other
    result[:half, half:] = -one @ upper[:half, half:] @ other
    return result


def calibrated(rows: np.ndarray, moments: np.ndarray, factor: np.ndarray, block: int) -> np.ndarray | None:
    """Integers (n,in) of float32 rows (n,in) in blocks, for the inputs of H; `factor` is what it feeds back.

    None where those of the search give less of an error.
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
    left = np.array(rows.T, order="C")  # (in,n): the numbers, and what they have to make up for
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
    """Tell whether integers (n,in) equal those of `calibrated` but for ties, given the preceding ones.

    A tie is a number within TIE steps of the middle between two integers: the last bits of H, which differ
    between processors, may round it either way, and what then has to be made up for differs too.
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
    """The integers below and above numbers (b,n) of a block with those scales and zeros (n).

    The same on every processor.
    """
    places = numbers / scale
    low, high = ((to(places) + zero).clip(0, LARGEST) for to in (np.floor, np.ceil))
    return low, high


def step(numbers: np.ndarray) -> np.ndarray:
    """A step (n) of the span that blocks (b,n) and 0 take in; of zeros alone, infinite."""
    span = numbers.max(axis=0).clip(0) - numbers.min(axis=0).clip(None, 0)
    return np.where(span > 0, span / LARGEST, np.inf)


def _rounded(
    numbers: np.ndarray,
    triangle: np.ndarray,
    bounds: tuple[np.ndarray, np.ndarray],
    scale: np.ndarray,
    zero: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Integers (b,n) of a block's numbers (b,n), which it may write, and the errors to make up for."""
    integers, errors = np.empty_like(numbers), np.empty_like(numbers)
    for i, (low, high) in enumerate(zip(*bounds, strict=True)):
        integers[i] = np.rint(numbers[i] / scale + zero).clip(low, high)
        errors[i] = (numbers[i] - (integers[i] - zero) * scale) / triangle[i, i]
        numbers[i + 1 :] -= triangle[i, i + 1 :, None] * errors[i]
    return integers, errors


def output_error(difference: np.ndarray, moments: np.ndarray) -> float:
    """The squared error of all outputs for the inputs of H, of a matrix that is off by that (out,in)."""
    return float(np.sum((difference @ moments) * difference, dtype=np.float64))
