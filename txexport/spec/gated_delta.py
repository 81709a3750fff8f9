"""Linear attention with a gated delta rule, whose keys and values are summed up in one matrix a head."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class GatedDeltaSpec(StatefulLayer):
    """Queries read a matrix of each head that every token decays and corrects (Yang et al. 2024, 3.1).

    Queries, keys and values pass a causal convolution over the last `kernel` tokens; adjacent heads of values
    share one of queries and keys. A gate multiplies each head's output behind its `norm`. With
    `negative_eigenvalues`, a token may take up to twice what its key reads, beta being twice as large
    (Grazzi et al. 2024, 4).
    """

    hidden_size: int
    num_key_heads: int
    num_value_heads: int
    key_dim: int
    value_dim: int
    kernel: int
    norm: NormSpec
    negative_eigenvalues: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_key_heads", "num_value_heads", "key_dim", "value_dim")
        self.check_kernel()
        if self.num_value_heads % self.num_key_heads:
            raise SpecError(
                f"GatedDeltaSpec: {self.num_value_heads} heads of values cannot share {self.num_key_heads} "
                "of keys evenly"
            )
        if self.norm.size != self.value_dim:
            raise SpecError(f"GatedDeltaSpec: norm is {self.norm.size} wide, values {self.value_dim}")

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of the queries, keys and values of all heads."""
        keys = self.num_key_heads * self.key_dim
        return keys, keys, self.num_value_heads * self.value_dim

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: last inputs, and the matrix of each head."""
        matrices = (self.num_value_heads, self.key_dim, self.value_dim)
        return {"conv": (sum(self.widths), self.kernel), "recurrent": matrices}
