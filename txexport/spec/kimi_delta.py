"""Linear attention with a delta rule whose decay differs between the channels of a key."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class KimiDeltaSpec(StatefulLayer):
    """Kimi delta attention: a gated delta rule with a decay of each channel of a key (Kimi Team 2025, 3).

    Queries, keys and values of `num_heads` heads of `head_dim` numbers pass a causal convolution over the
    last `kernel` tokens. The decay and the gate of the output are projections through `head_dim` numbers. The
    sigmoid of the gate multiplies each head's output behind its `norm`.
    """

    hidden_size: int
    num_delta_heads: int
    head_dim: int
    kernel: int
    norm: NormSpec

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_delta_heads", "head_dim")
        self.check_kernel()
        if self.norm.size != self.head_dim:
            raise SpecError(f"KimiDeltaSpec: norm is {self.norm.size} wide, a head {self.head_dim}")

    @property
    def width(self) -> int:
        """Width of the queries of all heads, and of keys and of values."""
        return self.num_delta_heads * self.head_dim

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: last inputs, and the matrix of each head."""
        matrices = (self.num_delta_heads, self.head_dim, self.head_dim)
        return {"conv": (3 * self.width, self.kernel), "recurrent": matrices}
