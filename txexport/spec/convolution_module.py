"""The convolution of a Conformer's layers (Gulati et al. 2020)."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class BatchNormSpec:
    """Normalisation of each of `size` channels by a mean and a variance from training."""

    size: int
    eps: float

    def __post_init__(self) -> None:
        positive(self, "size", "eps")


@dataclass(frozen=True)
class ConvolutionModuleSpec:
    """The convolution module of a Conformer (Gulati et al. 2020, 2.2).

    A projection to twice the width, a gate, a depthwise convolution over `kernel` vectors, `norm` or
    `batch_norm`, activation and a projection. A vector is in the middle of its kernel, or at its end if
    `causal`. `bias` is for the projections and the convolution. If `masked`, the convolution reads zeros in
    place of padding.
    """

    hidden_size: int
    kernel: int
    activation: Activation
    norm: NormSpec | None = None
    batch_norm: BatchNormSpec | None = None
    causal: bool = False
    bias: bool = False
    masked: bool = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "kernel")
        if self.kernel % 2 == 0:
            raise SpecError(f"ConvolutionModuleSpec: kernel is {self.kernel}, expected an odd number")
        sizes = [one.size for one in (self.norm, self.batch_norm) if one is not None]
        if sizes != [self.hidden_size]:
            raise SpecError(
                f"ConvolutionModuleSpec: norm and batch_norm of sizes {sizes}, expected one of them, of size "
                f"{self.hidden_size}"
            )

    @property
    def operations(self) -> int:
        """Floating-point operations of the depthwise convolution for a vector."""
        return 2 * self.hidden_size * self.kernel
