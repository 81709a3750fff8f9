"""Waveforms through convolutions."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.norm import NormSpec

RATE = 16_000  # Hz, at which costs are counted
SECONDS = 10  # of the waveform that costs are counted for


@dataclass(frozen=True)
class ConvolutionSpec:
    """A convolution over time with `size` output channels."""

    size: int
    kernel: int
    stride: int

    def __post_init__(self) -> None:
        positive(self, "size", "kernel", "stride")


@dataclass(frozen=True)
class WaveformSpec:
    """The feature encoder and the positions of wav2vec 2.0 (Baevski et al. 2020, 2).

    The output of the first of the `convolutions` is normalised over time, each channel alone; `bias` is for
    all of them. `norm` and a projection to `hidden_size` follow. The positions are a grouped convolution over
    the projected vectors, with kernels of `position_kernel` vectors; they are added, and `final_norm`
    follows. `activation` is that of every convolution.
    """

    hidden_size: int
    convolutions: tuple[ConvolutionSpec, ...]
    activation: Activation
    norm: NormSpec
    final_norm: NormSpec
    position_kernel: int
    position_groups: int
    bias: bool = False

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "position_kernel", "position_groups")
        if not self.convolutions:
            raise SpecError("WaveformSpec: convolutions is (), expected one or more")
        if self.norm.size != self.convolutions[-1].size or self.final_norm.size != self.hidden_size:
            raise SpecError(
                f"WaveformSpec: norm and final_norm are of size {self.norm.size} and {self.final_norm.size}, "
                f"expected {self.convolutions[-1].size} and {self.hidden_size}"
            )
        if self.hidden_size % self.position_groups:
            raise SpecError(
                f"WaveformSpec: hidden_size {self.hidden_size} is not divisible by position_groups "
                f"{self.position_groups}"
            )

    @property
    def least(self) -> int:
        """The number of samples that one vector is computed from."""
        samples = 1
        for convolution in reversed(self.convolutions):
            samples = (samples - 1) * convolution.stride + convolution.kernel
        return samples

    def vectors(self, samples: int) -> int:
        """The number of vectors of a waveform."""
        for convolution in self.convolutions:
            samples = (samples - convolution.kernel) // convolution.stride + 1
        return samples

    @property
    def length(self) -> int:
        """The number of vectors of a waveform of `shape`."""
        return self.vectors(*self.shape)

    @property
    def shape(self) -> tuple[int, ...]:
        """Samples of the waveform that costs are counted for."""
        return (max(RATE * SECONDS, self.least),)
