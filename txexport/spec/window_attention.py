"""Attention within windows of a grid, and its biases of relative positions."""

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from txexport.errors import SpecError, positive

RANGE = 8  # continuous distances are scaled to -8 .. 8 before their logarithm


@dataclass(frozen=True)
class CosineSpec:
    """Scores that are cosines times a learned scale, with a continuous bias (Liu et al. 2022, 3.2 and 3.3).

    The bias of a distance is computed by a network of `intermediate_size` hidden numbers from its logarithm.
    Distances are relative to windows of `trained_window`, or, where it is None, of the attention's own size.
    A scale is at most `largest_scale`, a bias at most `largest_bias`.
    """

    intermediate_size: int = 512
    trained_window: int | None = None
    largest_scale: float = 100.0
    largest_bias: float = 16.0

    def __post_init__(self) -> None:
        positive(self, "intermediate_size", "largest_scale", "largest_bias")
        if self.trained_window is not None and self.trained_window < 2:
            raise SpecError(
                f"CosineSpec: trained_window is {self.trained_window}, expected 2 or more, or None"
            )


@dataclass(frozen=True)
class WindowAttentionSpec:
    """Attention within squares of `window` by `window` vectors of a grid (Liu et al. 2021, 3.2).

    The grid is padded by zeros at the bottom and on the right to whole windows. Windows begin `shift` rows
    and columns later, cyclically; where a window then holds parts of several edges, `hidden` is added to
    the scores of pairs from different parts. Unless `always_shifted`, a grid that is no higher or no wider
    than a window is not shifted. The bias of a pair is that of its distance in rows and columns: from a
    learned table, or with `cosine` continuous. `bias` is that of the projections; with `cosine`, keys have
    none.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    window: int
    shift: int = 0
    always_shifted: bool = False
    hidden: float = -100.0
    bias: bool = True
    cosine: CosineSpec | None = None

    causal: ClassVar[bool] = False
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "window")
        if not 0 <= self.shift < self.window:
            raise SpecError(
                f"WindowAttentionSpec: shift is {self.shift} in windows of {self.window}; expected 0 or more "
                "and less than a window"
            )
        if self.num_heads * self.head_dim != self.hidden_size:
            raise SpecError(
                f"WindowAttentionSpec: {self.num_heads} heads of {self.head_dim}, expected hidden_size, "
                f"{self.hidden_size}, in all"
            )
        if self.hidden >= 0:
            raise SpecError(f"WindowAttentionSpec: hidden is {self.hidden}, expected a negative number")

    @property
    def key_bias(self) -> bool:
        """True where keys have a bias."""
        return self.bias and self.cosine is None

    @property
    def size(self) -> int:
        """The number of vectors in a window."""
        return self.window**2

    @property
    def distances(self) -> int:
        """The number of distances between two vectors of a window."""
        return (2 * self.window - 1) ** 2

    def coordinates(self) -> list[tuple[float, float]]:
        """Logarithmic rows and columns of every distance, in the order of a table of biases.

        A distance d is 8 d / (w - 1) for windows of w, then its sign times log2(1 + its size) / 3
        (Liu et al. 2022, equation 4).
        """
        trained = None if self.cosine is None else self.cosine.trained_window
        steps = max((trained or self.window) - 1, 1)
        octaves = Decimal(RANGE).ln()
        numbers = []
        for distance in range(1 - self.window, self.window):
            size = (1 + Decimal(RANGE * abs(distance)) / steps).ln() / octaves
            numbers.append(float(size.copy_sign(distance)))
        return [(row, column) for row in numbers for column in numbers]
