"""Layers that shorten the output of a stack."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.attention import AttentionSpec
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.layer import BlockSpec
from txexport.spec.layer_checks import check_no_crossing
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class LengthAdapterSpec:
    """Convolutions with a stride behind a stack (Li et al. 2021, 3.1): fewer vectors, of `hidden_size`.

    `feed_forward`, if there is one, is added first, by half. With a `norm`, the stack's vectors are projected
    to its size and normalised. Each of the `num_layers` convolutions has kernels of `kernel` vectors, a
    `stride`, and `padding` zeros at both ends; a sigmoid of half of its output gates the other half. With a
    `block`, its norms, its attention and its feed-forward network are in every layer: attention reads one
    convolution, and another is the residual beside it.
    """

    hidden_size: int
    num_layers: int
    kernel: int
    stride: int
    padding: int
    norm: NormSpec | None = None
    block: BlockSpec | None = None
    feed_forward: FeedForwardSpec | None = None

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_layers", "kernel", "stride")
        if self.block is not None:
            check_no_crossing(self, [self.block])
        if not 0 <= 2 * self.padding < self.kernel:
            raise SpecError(
                f"LengthAdapterSpec: padding is {self.padding} and kernel {self.kernel}; expected less than "
                "half of the kernel"
            )
        if self.norm is not None and self.norm.size != self.hidden_size:
            raise SpecError(
                f"LengthAdapterSpec: norm is {self.norm.size} wide, the adapter {self.hidden_size}"
            )
        if self.block is None:
            return
        kind = self.block.attention
        plain = isinstance(kind, AttentionSpec) and not (kind.causal or kind.has_position_bias or kind.rotary)
        if not plain or not self.block.placement.before or kind.hidden_size != self.hidden_size:
            raise SpecError(
                f"LengthAdapterSpec: a block with {type(kind).__name__} of width {kind.hidden_size}, "
                f"placement '{self.block.placement}'; expected bidirectional attention without positions of "
                f"width {self.hidden_size}, and norms before it"
            )

    @property
    def convolution(self) -> tuple[int, int, int, int]:
        """The size of a layer's output, the kernel, the stride and the padding."""
        return self.hidden_size, self.kernel, self.stride, self.padding

    def check_behind(self, hidden_size: int, masked: bool) -> None:
        """Raise SpecError unless it reads vectors of `hidden_size`, and a mask where it has attention."""
        if self.block is not None and not masked:
            raise SpecError("SignalStackSpec: length_adapter has blocks over a sound without a mask")
        fed = self.feed_forward
        if fed is not None and fed.hidden_size != hidden_size:
            raise SpecError(
                f"SignalStackSpec: the feed-forward network of length_adapter is {fed.hidden_size} wide, the "
                f"stack {hidden_size}"
            )
        if self.norm is None and self.hidden_size != hidden_size:
            raise SpecError(
                f"SignalStackSpec: length_adapter is {self.hidden_size} wide without a projection, the stack "
                f"{hidden_size}"
            )

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Kernels and strides by which vectors are counted: those of padding are no part of a kernel."""
        return ((self.kernel - 2 * self.padding, self.stride),) * self.num_layers

    def after(self, vectors: int) -> int:
        """The number of vectors behind one layer."""
        return (vectors + 2 * self.padding - self.kernel) // self.stride + 1

    def least(self, vectors: int) -> int:
        """The least number of the stack's vectors that `vectors` of the last layer are computed from."""
        for _ in range(self.num_layers):
            vectors = max(1, (vectors - 1) * self.stride + self.kernel - 2 * self.padding)
        return vectors
