"""Layers that keep the last inputs of a convolution between steps, in place of attention."""

from dataclasses import dataclass

from txexport.errors import positive
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class ShortConvolutionSpec(StatefulLayer):
    """A gated causal convolution over the last `kernel` tokens (Amini et al. 2025, LFM2, 2.1).

    One projection gives a gate of inputs, a gate of outputs and the inputs; each channel has a convolution of
    its own. `bias` is that of the projections and of the convolution.
    """

    hidden_size: int
    kernel: int
    bias: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size")
        self.check_kernel()

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: the last inputs of the convolution."""
        return {"conv": (self.hidden_size, self.kernel)}
