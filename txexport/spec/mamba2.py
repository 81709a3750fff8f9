"""State-space layers, whose past is summed up in one matrix a head."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.norm import NormSpec
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class Mamba2Spec(StatefulLayer):
    """Every token decays a matrix of each head, adds its inputs to it, and reads it (Dao and Gu 2024, 6).

    Inputs, and the vectors B and C that write and read them, pass a causal convolution over the last `kernel`
    tokens; adjacent heads share B and C in `num_groups`. A gate multiplies the output. A `norm` is over each
    group's part, after the gate, or before it unless `gate_first`. `bias` is that of the projections,
    `convolution_bias` that of the convolution.
    """

    hidden_size: int
    num_state_heads: int
    head_dim: int
    state_size: int
    num_groups: int
    kernel: int
    norm: NormSpec | None
    bias: bool = False
    convolution_bias: bool = True
    gate_first: bool = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_state_heads", "head_dim", "state_size", "num_groups")
        self.check_kernel()
        if self.num_state_heads % self.num_groups:
            raise SpecError(
                f"Mamba2Spec: {self.num_state_heads} heads cannot share {self.num_groups} groups evenly"
            )
        if self.norm is not None and self.norm.size != self.inner_size:
            raise SpecError(f"Mamba2Spec: norm is {self.norm.size} wide, the heads {self.inner_size}")

    @property
    def inner_size(self) -> int:
        """Width of all heads."""
        return self.num_state_heads * self.head_dim

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of what the convolution reads: inputs, B and C."""
        shared = self.num_groups * self.state_size
        return self.inner_size, shared, shared

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: last inputs, and the matrix of each head."""
        matrices = (self.num_state_heads, self.head_dim, self.state_size)
        return {"conv": (sum(self.widths), self.kernel), "ssm": matrices}
