"""Images as vectors before a prompt: stages of attention within windows and between channels."""

from dataclasses import dataclass
from math import prod

from txexport.errors import SpecError, positive
from txexport.spec.feed_forward import FeedForwardSpec
from txexport.spec.norm import NormSpec


@dataclass(frozen=True)
class DualStageSpec:
    """A convolution to a grid of vectors, then `num_layers` pairs of layers (Ding et al. 2022, 3.4).

    The convolution reads squares of `kernel` by `kernel`, one of every `stride` squared, with zeros around
    the grid; `norm` is that of its inputs, or with `norm_last` of its outputs.
    The first layer of a pair has `num_heads` within windows, the second `num_groups` of channels.
    """

    inputs: int
    hidden_size: int
    kernel: int
    stride: int
    norm: NormSpec
    norm_last: bool
    num_layers: int
    num_heads: int
    num_groups: int
    feed_forward: FeedForwardSpec

    def __post_init__(self) -> None:
        positive(self, "inputs", "hidden_size", "kernel", "stride", "num_layers", "num_heads", "num_groups")
        if self.kernel % 2 == 0 or self.kernel < self.stride:
            raise SpecError(
                f"DualStageSpec: kernel is {self.kernel} with stride {self.stride}; expected an odd number, "
                "at least as large"
            )
        normed = self.hidden_size if self.norm_last else self.inputs
        if self.norm.size != normed:
            raise SpecError(f"DualStageSpec: norm is {self.norm.size} wide, expected {normed}")
        if self.feed_forward.hidden_size != self.hidden_size:
            raise SpecError(
                f"DualStageSpec: feed_forward is {self.feed_forward.hidden_size} wide, the stage "
                f"{self.hidden_size}"
            )
        for name in ("num_heads", "num_groups"):
            if self.hidden_size % getattr(self, name):
                raise SpecError(
                    f"DualStageSpec: {name} is {getattr(self, name)}, expected a divisor of "
                    f"{self.hidden_size}"
                )


@dataclass(frozen=True)
class PicturesSpec:
    """Images of any size as vectors in the places of tokens (Xiao et al. 2024, 4).

    `stages` make a grid of vectors, with attention within windows of `window` by `window`. `positions` are
    the rows, and the columns, that have a learned vector each; `moments` those of a video's images, of which
    the first is read. The mean of an image's vectors precedes them. They are projected to `norm.size`
    numbers, without a bias, and normalised.
    """

    stages: tuple[DualStageSpec, ...]
    window: int
    positions: int
    moments: int
    norm: NormSpec
    bias: bool = True
    layer_norm: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, "window", "positions", "moments")
        if not self.stages:
            raise SpecError("PicturesSpec: no stages, expected one or more")
        for before, after in zip(self.stages, self.stages[1:], strict=False):
            if after.inputs != before.hidden_size:
                raise SpecError(
                    f"PicturesSpec: a stage reads {after.inputs} numbers, the one before gives "
                    f"{before.hidden_size}"
                )
        if self.hidden_size % 2:
            raise SpecError(f"PicturesSpec: hidden_size is {self.hidden_size}, expected an even number")

    @property
    def channels(self) -> int:
        """The channels of an image."""
        return self.stages[0].inputs

    @property
    def hidden_size(self) -> int:
        """The width of a vector before it is projected."""
        return self.stages[-1].hidden_size

    @property
    def side(self) -> int:
        """The side in pixels of the square that a vector stands for."""
        return prod(stage.stride for stage in self.stages)

    def grid(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of vectors of an image, in pixels."""
        return -(-height // self.side), -(-width // self.side)
