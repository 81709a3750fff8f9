"""A mask as a prompt."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class MaskPromptSpec:
    """Logits of a mask convolved to a vector for each place of an image (Kirillov et al. 2023, A).

    Two convolutions halve rows and columns, the first to a quarter of `channels`, the second to `channels`;
    each is normalised and activated. A last one projects them to the width of the places.
    """

    channels: int
    activation: Activation
    eps: float

    def __post_init__(self) -> None:
        positive(self, "channels", "eps")
        if self.channels % 4:
            raise SpecError(f"MaskPromptSpec: channels is {self.channels}, expected a multiple of 4")

    @property
    def norm(self) -> NormSpec:
        """The norm behind the first convolution."""
        return NormSpec(self.channels // 4, self.eps)

    @property
    def second_norm(self) -> NormSpec:
        """The norm behind the second one."""
        return NormSpec(self.channels, self.eps)
