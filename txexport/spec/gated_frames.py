"""Spectrograms through gated convolutions over time."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive

FRAMES = 1000  # that costs are counted for: ten seconds


@dataclass(frozen=True)
class GatedFramesSpec:
    """Frames of `num_mel_bins` through gated convolutions over time (Synnaeve et al. 2019, 2.1).

    Each convolution has a stride of 2 and one of the `kernels`; a gated linear unit follows it, which halves
    its channels. All but the last have `channels` before the unit; the last one's are halved to
    `hidden_size`. The result is multiplied by `scale`, and positions are added: `max_length` rows of a table
    after that of `pad_token_id`, which has no position as a decoder's token either.
    """

    hidden_size: int
    num_mel_bins: int
    channels: int
    kernels: tuple[int, ...]
    max_length: int
    pad_token_id: int
    scale: float = 1.0

    masked: ClassVar[bool] = True
    stride: ClassVar[int] = 2  # of each convolution

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_mel_bins", "channels", "max_length", "scale")
        if not self.kernels or any(kernel < 1 or kernel % 2 == 0 for kernel in self.kernels):
            raise SpecError(f"GatedFramesSpec: kernels are {self.kernels}, expected one or more odd numbers")
        if self.channels % 2:
            raise SpecError(
                f"GatedFramesSpec: channels is {self.channels}, expected an even number, which is halved"
            )

    @property
    def offset(self) -> int:
        """The row of the first position."""
        return self.pad_token_id + 1

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """The input and output channels of each convolution, the latter before they are halved."""
        last = len(self.kernels) - 1
        return tuple(
            (
                self.channels // 2 if number else self.num_mel_bins,
                self.channels if number < last else 2 * self.hidden_size,
            )
            for number in range(len(self.kernels))
        )

    def vectors(self, frames: int) -> int:
        """The number of vectors of a number of frames."""
        for _ in self.kernels:
            frames = (frames - 1) // self.stride + 1
        return frames

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Kernels and strides by which vectors are counted: those of padding are no part of a kernel."""
        return ((1, self.stride),) * len(self.kernels)

    @property
    def vector_stride(self) -> int:
        """The number of frames from a vector to the next."""
        return self.stride ** len(self.kernels)

    @property
    def length(self) -> int:
        """The number of vectors of a sound of `shape`."""
        return self.vectors(self.shape[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Frames and bands of the sound that costs are counted for."""
        return min(FRAMES, self.max_length * self.vector_stride), self.num_mel_bins
