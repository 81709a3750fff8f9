"""Spectrograms through convolutions over time and frequency."""

from dataclasses import dataclass
from typing import ClassVar

from txexport.errors import SpecError, positive

FRAMES = 1000  # that costs are counted for: ten seconds


@dataclass(frozen=True)
class SubsampledSpec:
    """Frames of `num_mel_bins` through convolutions over time and frequency (Rekesh et al. 2023, 2.1).

    Each of the `layers` has kernels of `kernel` by `kernel`, a `stride` in both directions and `channels`.
    The first reads the spectrogram; in the others each channel reads its own, and a projection of the
    channels follows. A ReLU is behind each. The channels and bands of a frame are projected to `hidden_size`
    and multiplied by `scale`. After each convolution, frames of padding are zeros.
    """

    hidden_size: int
    num_mel_bins: int
    channels: int
    layers: int
    kernel: int = 3
    stride: int = 2
    scale: float = 1.0

    masked: ClassVar[bool] = True

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "num_mel_bins", "channels", "layers", "kernel", "stride", "scale")
        if self.kernel % 2 == 0:
            raise SpecError(f"SubsampledSpec: kernel is {self.kernel}, expected an odd number")

    def vectors(self, frames: int) -> int:
        """The number of vectors of a number of frames."""
        for _ in range(self.layers):
            frames = self.after(frames)
        return frames

    def after(self, frames: int) -> int:
        """The length after a convolution, of frames or of bands."""
        return (frames - 1) // self.stride + 1

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Kernels and strides by which vectors are counted: those of padding are no part of a kernel."""
        return ((1, self.stride),) * self.layers

    @property
    def vector_stride(self) -> int:
        """The number of frames from a vector to the next."""
        return self.stride**self.layers

    @property
    def bands(self) -> int:
        """The number of bands after the convolutions."""
        return self.vectors(self.num_mel_bins)

    @property
    def length(self) -> int:
        """The number of vectors of a sound of `shape`."""
        return self.vectors(FRAMES)

    @property
    def shape(self) -> tuple[int, ...]:
        """Frames and bands of the sound that costs are counted for."""
        return FRAMES, self.num_mel_bins
