"""Gated linear recurrences, whose past is one number of each channel."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.stateful_layer import StatefulLayer


@dataclass(frozen=True)
class RgLruSpec(StatefulLayer):
    """A real-gated linear recurrent unit (RG-LRU) in a recurrent block (De et al. 2024, 2.3 and 2.4).

    Inputs of `width` channels pass a causal convolution over the last `kernel` tokens. Two gates, each a
    projection in `num_blocks` blocks of channels, tell how far a channel decays and what is added to it. A
    third, with the `activation`, multiplies the output.
    """

    hidden_size: int
    width: int
    num_blocks: int
    kernel: int
    activation: Activation

    new_tokens = (*StatefulLayer.new_tokens, "first")

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "width", "num_blocks")
        if self.width % self.num_blocks:
            raise SpecError(
                f"RgLruSpec: width is {self.width}, which {self.num_blocks} blocks do not divide evenly"
            )
        self.check_kernel()

    @property
    def states(self) -> dict[str, tuple[int, ...]]:
        """The shapes of what a row keeps between steps, by kind: last inputs, and each channel's number."""
        return {"conv": (self.width, self.kernel), "recurrent": (self.width,)}
