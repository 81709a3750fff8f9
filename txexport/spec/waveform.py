"""Waveforms through convolutions."""

from dataclasses import dataclass
from math import prod

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation, ConvolutionNorm, PositionNorm
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


class Convolved:
    """The lengths of a waveform that passes through `convolutions`."""

    convolutions: tuple[ConvolutionSpec, ...]

    @property
    def least(self) -> int:
        """The number of samples that one vector is computed from."""
        return self.samples(1)

    def samples(self, vectors: int) -> int:
        """The least number of samples that this number of `vectors` is computed from."""
        for convolution in reversed(self.convolutions):
            vectors = (vectors - 1) * convolution.stride + convolution.kernel
        return vectors

    @property
    def counted(self) -> tuple[tuple[int, int], ...]:
        """Kernels and strides by which vectors are counted."""
        return tuple((convolution.kernel, convolution.stride) for convolution in self.convolutions)

    @property
    def stride(self) -> int:
        """The number of samples from a vector to the next."""
        return prod(convolution.stride for convolution in self.convolutions)

    def vectors(self, samples: int) -> int:
        """The number of vectors of a waveform of `samples`."""
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


@dataclass(frozen=True)
class WaveformSpec(Convolved):
    """The feature encoder and the positions of wav2vec 2.0 (Baevski et al. 2020, 2).

    The outputs of the `convolutions` are normalised as `convolution_norm` says; `bias` is for all of them.
    `norm`, if there is one, and a projection to `hidden_size` follow; without one, unless `projected`, the
    last convolution has that size. The positions, unless `position_kernel`
    is None, are `position_layers` grouped convolutions over the projected vectors, with kernels of that many
    vectors, normalised as `position_norm` says; they are added, and `final_norm` follows, if there is one.
    `activation` is that of every convolution. Where waveforms are `masked`, vectors of padding are zeros when
    the positions are computed, and no vector attends to them. With `normed_state`, the original returns the
    last of the stack's hidden states after the stack's final norm.
    """

    hidden_size: int
    convolutions: tuple[ConvolutionSpec, ...]
    activation: Activation
    norm: NormSpec | None
    final_norm: NormSpec | None
    position_kernel: int | None
    position_groups: int
    bias: bool = False
    convolution_norm: ConvolutionNorm = ConvolutionNorm.GROUP
    masked: bool = False
    position_norm: PositionNorm = PositionNorm.NONE
    position_layers: int = 1
    projected: bool = True
    normed_state: bool = False

    def __post_init__(self) -> None:
        positioned = ["position_kernel"] * (self.position_kernel is not None)
        positive(self, "hidden_size", "position_groups", "position_layers", *positioned)
        if not self.convolutions:
            raise SpecError("WaveformSpec: convolutions is (), expected one or more")
        for name, size in (("norm", self.convolutions[-1].size), ("final_norm", self.hidden_size)):
            norm = getattr(self, name)
            if norm is not None and norm.size != size:
                raise SpecError(f"WaveformSpec: {name} is of size {norm.size}, expected {size}")
        if not self.projected and self.convolutions[-1].size != self.hidden_size:
            raise SpecError(
                f"WaveformSpec: projected is False and the last convolution of size "
                f"{self.convolutions[-1].size}, expected hidden_size {self.hidden_size}"
            )
        if self.position_layers > 1 and self.position_norm != PositionNorm.LAYER:
            raise SpecError(
                f"WaveformSpec: {self.position_layers} position_layers with position_norm "
                f"{self.position_norm}, expected {PositionNorm.LAYER}"
            )
        if self.hidden_size % self.position_groups:
            raise SpecError(
                f"WaveformSpec: hidden_size {self.hidden_size} is not divisible by position_groups "
                f"{self.position_groups}"
            )
