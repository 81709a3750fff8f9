"""Relative positions: biases of attention's scores, and vectors that attention projects."""

import math
import struct
from dataclasses import dataclass
from functools import cache

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec

LONGEST_DISTANCE = 2**20  # of a relative bias, which has a number for each
LONGEST_EXACT = 2**12  # of vectors of relative positions, whose buckets are told apart by powers


@dataclass(frozen=True)
class RelativeSpec:
    """A learned bias on attention's scores for each head and bucket of distance (Raffel et al. 2020, 2.1).

    Half of the buckets of a direction are single distances, the others grow logarithmically and the last
    one begins before `max_distance`. `bidirectional` has buckets of their own for keys after the query. With
    `every_layer`, each has a table of its own (Chung et al. 2023), and all share one without.
    """

    buckets: int
    max_distance: int
    bidirectional: bool
    every_layer: bool = False

    def __post_init__(self) -> None:
        exact = self.directed // 2
        if exact < 1 or not exact < self.max_distance <= LONGEST_DISTANCE:
            raise SpecError(
                f"RelativeSpec: {self.buckets} buckets do not fit distances up to {self.max_distance}"
            )

    @property
    def directed(self) -> int:
        """Buckets of one direction."""
        return self.buckets // 2 if self.bidirectional else self.buckets

    def bucket_of_distance(self) -> list[int]:
        """The bucket of each distance from 0 to max_distance; those beyond have the last one's."""
        exact = self.directed // 2
        grown = self.directed - exact
        result = list(range(exact))
        for distance in range(exact, self.max_distance + 1):
            step = math.log(distance / exact) / math.log(self.max_distance / exact) * grown
            result.append(min(exact + int(step + 1e-6), self.directed - 1))
        return result


@dataclass(frozen=True)
class RelativeVectorsSpec:
    """Learned vectors of how far a query stands after a key, for attention to project (He et al. 2021, 3.1).

    There are `span` vectors of queries before the key, and `span` of those at its place or after it. They
    are of single distances up to `max_distance`, or of `buckets`: half of those of a direction are single
    distances, the others grow logarithmically up to `max_distance` - 1. `norm` normalises every vector.
    """

    max_distance: int
    buckets: int | None = None
    norm: NormSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "max_distance")
        if self.max_distance > LONGEST_EXACT:
            raise SpecError(
                f"RelativeVectorsSpec: distances up to {self.max_distance}, expected {LONGEST_EXACT} at most"
            )
        if self.buckets is not None:
            uneven = self.buckets % 2 or self.buckets < 4
            if uneven or not self.buckets // 2 < self.max_distance - 1:
                raise SpecError(
                    f"RelativeVectorsSpec: {self.buckets} buckets do not fit distances up to "
                    f"{self.max_distance}; expected an even number from 4 to {2 * self.max_distance - 4}"
                )

    @property
    def span(self) -> int:
        """Vectors of one direction."""
        return self.max_distance if self.buckets is None else self.buckets

    def bucket_of_distance(self) -> list[int]:
        """The bucket of each distance from 0 to max_distance; those beyond have the last one's."""
        if self.buckets is None:
            return list(range(self.max_distance + 1))
        return [*_logarithmic(self.buckets // 2, self.max_distance - 1), self.span]

    def vectors(self, length: int) -> int:
        """The number of vectors for a sequence of `length` tokens."""
        reach = self.bucket_of_distance()[min(length - 1, self.max_distance)]
        return reach + min(reach + 1, self.span)


@dataclass(frozen=True)
class SinusoidVectorsSpec:
    """Vectors of how far a query stands after a key, for attention to project (Dai et al. 2019, 3.3).

    Distance d, held within -clamp and clamp, is the sines of d * frequencies and then their cosines; or, if
    `interleaved`, the sine and the cosine of each.
    """

    frequencies: tuple[float, ...]
    clamp: int | None = None
    interleaved: bool = False

    def __post_init__(self) -> None:
        if not self.frequencies:
            raise SpecError("SinusoidVectorsSpec: frequencies is (), so there is no vector; expected numbers")
        if self.clamp is not None:
            positive(self, "clamp")

    def vectors(self, length: int) -> int:
        """The number of vectors for a sequence of `length` tokens."""
        return 2 * length - 1


@cache
def _logarithmic(half: int, last: int) -> tuple[int, ...]:
    """The bucket of each distance up to `last`: itself up to `half`, then half + 1 to 2 half - 1.

    That of a distance d beyond half, h, is h + ceil((h - 1) log(d / h) / log(last / h)). Powers of whole
    numbers tell it: no logarithm rounds a distance to the other side of an edge.
    """
    result, step = list(range(half + 1)), 0
    low, high = half ** (half - 1), 1  # half ** (half - 1 - step) and last ** step
    for distance in range(half + 1, last + 1):
        while distance ** (half - 1) > low * high:
            step, low, high = step + 1, low // half, high * last
        result.append(half + step)
    return tuple(result)


@dataclass(frozen=True)
class AlibiSpec:
    """A bias that falls with distance, by `slopes[n]` a token for head n (Press et al. 2022, 3)."""

    slopes: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.slopes:
            raise SpecError("AlibiSpec: slopes is (), no slopes, so nothing is biased; expected one a head")


@dataclass(frozen=True)
class RoundedAlibiSpec:
    """A bias that grows with a key's own position, in bfloat16, and is then multiplied by `scale`.

    Exactly, it would be AlibiSpec's: a softmax sees differences alone. But slope, position and their product
    are rounded to 8 bits each, which is no function of the distance. Positions are below `length`.
    """

    slopes: tuple[float, ...]
    length: int
    scale: float = 1.0

    def __post_init__(self) -> None:
        positive(self, "length", "scale")
        if not self.slopes:
            raise SpecError("RoundedAlibiSpec: slopes is (), so nothing is biased; expected one a head")
        if self.length * len(self.slopes) > LONGEST_DISTANCE:
            raise SpecError(
                f"RoundedAlibiSpec: {self.length} positions of {len(self.slopes)} heads, expected "
                f"{LONGEST_DISTANCE} at most of all, since graphs hold a number for each"
            )

    def bias_of_position(self) -> list[list[float]]:
        """Of each head the bias of every position."""
        places = [_bfloat16(place) for place in range(self.length)]
        return [
            [_bfloat16(_bfloat16(slope) * place) * self.scale for place in places] for slope in self.slopes
        ]


def _bfloat16(number: float) -> float:
    """The nearest number of 8 bits, of two equally near the even one; of one that float32 holds exactly."""
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    kept = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000
    rounded: float = struct.unpack("<f", struct.pack("<I", kept))[0]
    return rounded
