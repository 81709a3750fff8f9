"""Waveforms through a short stem of convolutions (Jeffries et al. 2024, 3.1)."""

from torch import Tensor, nn

from txexport.spec import WaveformStemSpec
from txmodels.activation import activation


class WaveformStem(nn.Module):
    """Convolutions over samples; a tanh and a norm over channels and time follow the first."""

    def __init__(self, spec: WaveformStemSpec):
        super().__init__()
        self.act = activation(spec.activation)
        sizes = [1, *(convolution.size for convolution in spec.convolutions)]
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, convolution.size, convolution.kernel, convolution.stride, bias=number > 0)
            for number, (channels, convolution) in enumerate(zip(sizes, spec.convolutions, strict=False))
        )
        self.norm = nn.GroupNorm(1, sizes[1], spec.norm_eps)

    def forward(self, input_values: Tensor) -> Tensor:
        """input_values (B,samples) -> x (B,S,W)."""
        first, *others = self.convolutions
        frames = self.norm(first(input_values[:, None]).tanh())  # (B, channels, S)
        for convolution in others:
            frames = self.act(convolution(frames))  # (B, channels, S)
        x: Tensor = frames.mT  # (B, S, W)
        return x


Embedding = WaveformStem
