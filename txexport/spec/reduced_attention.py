"""Layers over a grid of vectors: attention to fewer keys, and networks that read the neighbours."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class ReducedAttentionSpec:
    """Attention of every vector of a grid to the keys of a smaller one (Wang et al. 2021, 3.3).

    Keys and values are those of squares of `reduction` by `reduction` vectors, each convolved to one vector,
    and normalised by `norm`; rows and columns beyond the last whole square have no keys. With a reduction
    of 1 every vector has a key, and there is no norm.
    """

    hidden_size: int
    num_heads: int
    head_dim: int
    reduction: int
    norm: NormSpec | None
    bias: bool = True

    causal: ClassVar[bool] = False
    window: ClassVar[None] = None
    has_position_bias: ClassVar[bool] = False
    token_masks: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_heads", "head_dim", "reduction")
        if (self.norm is None) != (self.reduction == 1):
            raise SpecError(
                f"ReducedAttentionSpec: norm is {self.norm} with reduction {self.reduction}; expected None "
                "with 1, and one with more"
            )
        if self.norm is not None and self.norm.size != self.hidden_size:
            raise SpecError(
                f"ReducedAttentionSpec: norm is {self.norm.size} wide, the layer {self.hidden_size}"
            )

    def keys(self, length: int) -> int:
        """The number of keys of a grid of `length` vectors and of whole squares."""
        return length // self.reduction**2


@dataclass(frozen=True)
class ConvolvedFeedForwardSpec:
    """A network that convolves the grid of its inner vectors, each channel alone (Xie et al. 2021, 3.1).

    Up, a convolution of squares of `kernel` by `kernel` vectors with zeros around the grid, the activation,
    down.
    """

    hidden_size: int
    intermediate_size: int
    activation: Activation
    kernel: int = 3

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "intermediate_size", "kernel")
        if self.kernel % 2 == 0:
            raise SpecError(
                f"ConvolvedFeedForwardSpec: kernel is {self.kernel}; expected an odd number, which keeps the "
                "grid's size"
            )
