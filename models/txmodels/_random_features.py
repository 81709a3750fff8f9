"""Random directions that are the same on every machine.

No library's generator or logarithm is used: bits come from SHA-256, logarithms from decimal, which rounds
correctly, and sums are exact before they are rounded.
"""

import hashlib
import math
from collections.abc import Iterator
from decimal import Context, Decimal

DIGITS = Context(prec=25)


def orthogonal(count: int, size: int) -> list[list[float]]:
    """`count` Gaussian vectors of `size`, orthogonal within each block of `size`.

    Orthogonal blocks have a lower variance than independent vectors (Choromanski et al. 2021, 2.4).
    """
    normal = _normal()
    result: list[list[float]] = []
    for first in range(0, count, size):
        block: list[list[float]] = []
        while len(block) < min(size, count - first):
            block.append(_apart([next(normal) for _ in range(size)], block))
        result += block
    lengths = [_length([next(normal) for _ in range(size)]) for _ in result]
    return [[one * length for one in vector] for vector, length in zip(result, lengths, strict=True)]


def _apart(vector: list[float], others: list[list[float]]) -> list[float]:
    """The component of a vector orthogonal to `others`, L2-normalised.

    Computed twice to remove rounding errors.
    """
    for _ in range(2):
        for other in others:
            share = math.fsum(a * b for a, b in zip(vector, other, strict=True))
            vector = [a - share * b for a, b in zip(vector, other, strict=True)]
    length = _length(vector)
    return [one / length for one in vector]


def _length(vector: list[float]) -> float:
    return math.sqrt(math.fsum(one * one for one in vector))


def _normal() -> Iterator[float]:
    """Standard normal numbers, by the polar method (Marsaglia and Bray 1964)."""
    uniform = _uniform()
    while True:
        x, y = next(uniform), next(uniform)
        square = x * x + y * y
        if 0 < square < 1:
            factor = math.sqrt(-2 * float(DIGITS.ln(Decimal(square))) / square)
            yield x * factor
            yield y * factor


def _uniform() -> Iterator[float]:
    """Uniform numbers between -1 and 1, of 53 bits each."""
    number = 0
    while True:
        digest = hashlib.sha256(number.to_bytes(8, "little")).digest()
        for place in range(0, len(digest), 8):
            yield (int.from_bytes(digest[place : place + 8], "little") >> 11) / 2**52 - 1
        number += 1
