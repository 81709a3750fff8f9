"""Selective state spaces, whose past is summed up in a few numbers of each channel."""

from dataclasses import dataclass

from txexport.errors import positive
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class MambaSpec(StatefulLayer):
    """Every token decays `state_size` numbers of each channel, adds its input, and reads them.

    That is a selective state space (Gu and Dao 2023, 3). Inputs pass a causal convolution over the last
    `kernel` tokens; steps, by which channels decay, are projected from `step_rank` numbers. A gate multiplies
    the output. With `norm_eps`, an RMS norm without a scale precedes the use of the step's numbers, B and C.
    `bias` is that of the outer projections, `convolution_bias` that of the convolution.
    """

    hidden_size: int
    inner_size: int
    state_size: int
    step_rank: int
    kernel: int
    bias: bool = False
    convolution_bias: bool = True
    norm_eps: float | None = None

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "inner_size", "state_size", "step_rank")
        if self.norm_eps is not None:
            positive(self, "norm_eps")
        self.check_kernel()

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of what the inputs select: the step's numbers, B and C."""
        return self.step_rank, self.state_size, self.state_size

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: last inputs, and numbers of each channel."""
        return {"conv": (self.inner_size, self.kernel), "ssm": (self.inner_size, self.state_size)}
