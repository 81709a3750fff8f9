"""Waveforms through a short stem of convolutions, without positions."""

from dataclasses import dataclass

from txexport.errors import SpecError, positive
from txexport.spec.enums import Activation
from txexport.spec.waveform import ConvolutionSpec, Convolved


@dataclass(frozen=True)
class WaveformStemSpec(Convolved):
    """The stem of Moonshine (Jeffries et al. 2024, 3.1).

    The first of the `convolutions` has no bias. A tanh follows it, and a norm over all its channels and all
    time, with an epsilon of `norm_eps` and a weight and a bias for each channel. The others have a bias, and
    `activation` follows each. The last one's channels are the hidden states. RoPE gives the positions.
    """

    hidden_size: int
    convolutions: tuple[ConvolutionSpec, ...]
    activation: Activation
    norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        positive(self, "hidden_size", "norm_eps")
        sizes = [convolution.size for convolution in self.convolutions]
        if sizes[-1:] != [self.hidden_size]:
            raise SpecError(
                f"WaveformStemSpec: convolutions have {sizes} channels; expected one or more, the last "
                f"with hidden_size, {self.hidden_size}"
            )
