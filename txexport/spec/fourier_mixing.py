"""Mixing of tokens by a Fourier transform."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import positive


@dataclass(frozen=True)
class FourierMixingSpec:
    """The real part of the discrete Fourier transform over tokens and over a vector's numbers (Lee-Thorp et
    al. 2021, 3.2), without weights. It reads no mask: padding changes every vector.
    """

    hidden_size: int

    num_heads: ClassVar[int] = 0
    head_dim: ClassVar[int] = 0
    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[tuple[str, ...]] = ("cos_width", "sin_width", "cos_tokens", "sin_tokens")

    def __post_init__(self) -> None:
        positive(self, "hidden_size")

    @property
    def frequencies(self) -> int:
        """Frequencies of a vector's numbers; the others mirror these, since the numbers are real."""
        return self.hidden_size // 2 + 1
