"""Elementary functions with the same bits on every processor.

numpy's and C's differ in the last bits between processors, because they select code by the instructions
available. These use decimal arithmetic, or sums, products and quotients alone, which IEEE 754 defines to the
last bit, so that export writes the same bytes everywhere.
"""

import math
from decimal import Context, Decimal, InvalidOperation
from fractions import Fraction

import numpy as np

DECIMAL = Context(prec=40, traps=[InvalidOperation])  # 40 digits, where a float64 has 17
QUARTER = Fraction("1.570796326794896619231321691639751442098584699687552910487472296")  # pi / 2


def exp(x: float) -> float:
    """e to the power of `x`."""
    return float(DECIMAL.exp(Decimal(x)))


def log(x: float) -> float:
    """The natural logarithm."""
    return float(DECIMAL.ln(Decimal(x)))


def power(base: float, exponent: float) -> float:
    """`base` to the power of `exponent`."""
    return float(DECIMAL.power(Decimal(base), Decimal(exponent)))


def normal_quantile(share: float) -> float:
    """The number below which the given share of a standard normal distribution lies, from -9 to 9."""
    low, high = -9.0, 9.0
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if _normal_share(middle) < share else (low, middle)
    return (low + high) / 2


def _normal_share(x: float) -> float:
    """The share of a standard normal distribution below `x` (Marsaglia 2004, 2)."""
    total, term = 0.0, x
    for n in range(3, 400, 2):
        total += term
        term *= x * x / n
    return 0.5 + total * exp(-x * x / 2) / math.sqrt(4 * float(QUARTER))


def sin_cos(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sines and cosines of float64 `angles`, within 2e-16 for angles of up to a million."""
    turns = np.rint(angles / float(QUARTER))
    rest = angles
    for part in PARTS:
        rest = rest - turns * part
    square = rest * rest
    sines = rest + rest * square * _series(square, 3)
    cosines = 1 + square * _series(square, 2)
    quarter = turns.astype(np.int64)
    odd = quarter % 2 == 1
    return (
        np.where(odd, cosines, sines) * np.where(quarter & 2, -1.0, 1.0),
        np.where(odd, sines, cosines) * np.where((quarter + 1) & 2, -1.0, 1.0),
    )


def _parts() -> list[float]:
    """pi / 2 as a sum of three numbers.

    The first two have 33 bits, so that products with 20 bits are exact.
    """
    first = Fraction(math.floor(QUARTER * 2**32), 2**32)
    second = Fraction(math.floor((QUARTER - first) * 2**66), 2**66)
    return [float(part) for part in (first, second, QUARTER - first - second)]


def _series(square: np.ndarray, first: int) -> np.ndarray:
    """The Taylor series of sine or cosine from the term of 1 / `first`! on, divided by its power of x."""
    total = np.zeros_like(square)
    for n in range(first + 16, first - 1, -2):  # the next term is below 1e-18 at pi / 4
        sign = -1 if n // 2 % 2 else 1
        total = total * square + sign / math.factorial(n)
    return total


PARTS = _parts()
