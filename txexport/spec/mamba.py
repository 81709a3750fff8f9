"""Selective state spaces, whose past is summed up in a few numbers of each channel."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import NormKind
from txexport.spec.norm import NormSpec
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class MambaSpec(StatefulLayer):
    """Every token decays `state_size` numbers of each channel, adds its input, and reads them.

    That is a selective state space (Gu and Dao 2023, 3). Inputs pass a causal convolution over the last
    `kernel` tokens; steps, by which channels decay, are projected from `step_rank` numbers. A gate multiplies
    the output. With `norm_eps`, an RMS norm precedes the use of the step's numbers, of B and of C; each has a
    learned scale if `norm_scale` (Lieber et al. 2024, 6.4).
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
    norm_scale: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "inner_size", "state_size", "step_rank")
        if self.norm_eps is not None:
            positive(self, "norm_eps")
        elif self.norm_scale:
            raise SpecError("MambaSpec: norm_scale is True without norm_eps, expected False")
        self.check_kernel()

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of what the inputs select: the step's numbers, B and C."""
        return self.step_rank, self.state_size, self.state_size

    @property
    def norms(self) -> tuple[NormSpec, NormSpec, NormSpec] | None:
        """Norms with a learned scale, of the step's numbers, of B and of C; None if they have none."""
        if self.norm_eps is None or not self.norm_scale:
            return None
        step, b, c = (NormSpec(size, self.norm_eps, NormKind.RMS) for size in self.widths)
        return step, b, c

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: last inputs, and numbers of each channel."""
        return {"conv": (self.inner_size, self.kernel), "ssm": (self.inner_size, self.state_size)}
