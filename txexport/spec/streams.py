"""Several vectors of each token, of which a layer reads one; and a residual of low rank."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class StreamsSpec:
    """Alternating updates: `count` vectors of a token; a layer reads the first (Baykal et al. 2023, AltUp).

    Before a layer, each vector becomes itself plus a weighted sum of all; behind it, each is corrected by a
    share of the difference between the layer's output and the first vector before the layer. Weights and
    shares are projections of the router's scores: tanh of a projection of the normalised vector over its
    width. The input of a layer, `layer_input`, is gated by the first vector, times a learned vector with an
    `output_scale`, and added to the others (Gemma Team 2025, Gemma 3n).

    The first one before all layers is the embedded token, the others its projections, as long as it is;
    behind all layers the others are projected once more to the length of the first, and the mean of all is
    taken.
    """

    count: int
    norm: NormSpec
    output_scale: bool = True

    def __post_init__(self) -> None:
        if self.count < 2:
            raise SpecError(f"StreamsSpec: count is {self.count}, expected 2 or more")

    def operations(self, hidden_size: int) -> int:
        """Operations of one token beside one product with each matrix: the second routing, and the mixing."""
        routing = 2 * self.count * hidden_size
        return routing + 2 * self.count**2 * hidden_size


@dataclass(frozen=True)
class AugmentedResidualSpec:
    """A residual of low rank beside attention: x + norm(up(down(x))) (Menghani et al. 2024, LAuReL, 2.1).

    x is the input of attention. It is added to the sum of attention and its residual, and the total is
    divided by the square root of 2 (Gemma Team 2025, Gemma 3n).
    """

    hidden_size: int
    rank: int
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "rank")
        if self.norm.size != self.hidden_size:
            raise SpecError(
                f"AugmentedResidualSpec: the norm is {self.norm.size} wide, expected hidden_size, "
                f"{self.hidden_size}"
            )
