"""Rotary position embeddings (RoPE)."""

import math
from dataclasses import dataclass, replace

from txexport.errors import SpecError, positive


@dataclass(frozen=True)
class QueryGrowthSpec:
    """Queries at position p are multiplied by 1 + rate * log(1 + floor((p + ahead) / length)) (Meta 2025)."""

    rate: float
    length: int
    ahead: int = 0

    def __post_init__(self) -> None:
        positive(self, "rate", "length")
        if self.ahead < 0:
            raise SpecError(f"QueryGrowthSpec: ahead is {self.ahead}, expected 0 or more")


@dataclass(frozen=True)
class RotarySpec:
    """Rotation of queries and keys by their positions (Su et al. 2021, 3.4.2).

    Pair j of a head's first 2 * len(frequencies) numbers turns by position * frequencies[j] radians; the
    others stay. A pair is (j, j + len(frequencies)), or (2j, 2j + 1) where `interleaved`. `scale` multiplies
    the rotated numbers. In a call with a position of `short_length` or beyond, all tokens turn by
    `long_frequencies`, where there are any (LongRoPE; Ding et al. 2024, 3.2). With `axes`, a token has a
    position on each of several axes, and pair j turns by that on axes[j] (M-RoPE; Wang et al. 2024, 2.1).
    With `growth`, queries grow with their positions.
    """

    frequencies: tuple[float, ...]
    interleaved: bool = False
    scale: float = 1.0
    long_frequencies: tuple[float, ...] = ()
    short_length: int = 0
    axes: tuple[int, ...] = ()
    growth: QueryGrowthSpec | None = None

    @property
    def of_short(self) -> "RotarySpec":
        """The same for short sequences alone."""
        return replace(self, long_frequencies=(), short_length=0)

    def __post_init__(self) -> None:
        if self.long_frequencies and len(self.long_frequencies) != len(self.frequencies):
            raise SpecError(
                f"RotarySpec: long_frequencies are {len(self.long_frequencies)} numbers, expected "
                f"{len(self.frequencies)}, as many as frequencies"
            )
        if bool(self.long_frequencies) != (self.short_length > 0):
            raise SpecError(
                f"RotarySpec: short_length is {self.short_length}, expected "
                f"{'1 or more' if self.long_frequencies else '0, without long_frequencies'}"
            )
        if not self.frequencies:
            raise SpecError(
                "RotarySpec: frequencies is (), so nothing is rotated; expected one or more numbers"
            )
        every = self.frequencies + self.long_frequencies
        if self.axes and (len(self.axes) != len(self.frequencies) or min(self.axes) < 0):
            raise SpecError(
                f"RotarySpec: axes are {len(self.axes)} numbers from {min(self.axes)}, expected "
                f"{len(self.frequencies)} from 0, one for each frequency"
            )
        if self.axes and self.long_frequencies:
            raise SpecError("RotarySpec: long_frequencies with positions on several axes; expected ()")
        if self.axes and self.growth is not None:
            raise SpecError("RotarySpec: growth with positions on several axes; expected None")
        endless = [frequency for frequency in every if not math.isfinite(frequency)]
        if endless:
            raise SpecError(f"RotarySpec: a frequency is {endless[0]}, expected finite numbers")
        positive(self, "scale")
