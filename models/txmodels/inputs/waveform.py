"""Waveforms through convolutions (Baevski et al. 2020, 2)."""

from torch import Tensor, nn

from txexport.spec import WaveformSpec
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.norm import Norm


class WaveformEmbedding(nn.Module):
    """Convolutions over samples, projected, plus positions by a convolution over the projected vectors."""

    def __init__(self, spec: WaveformSpec):
        super().__init__()
        sizes = [1, *(convolution.size for convolution in spec.convolutions)]
        self.act = activation(spec.activation)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, convolution.size, convolution.kernel, convolution.stride, bias=spec.bias)
            for channels, convolution in zip(sizes, spec.convolutions, strict=False)
        )
        self.channel_norm = nn.GroupNorm(sizes[1], sizes[1])
        self.norm = Norm(spec.norm)
        self.project = Linear(sizes[-1], spec.hidden_size)
        self.position = ConvolutionalPosition(spec)
        self.final_norm = Norm(spec.final_norm)

    def forward(self, input_values: Tensor) -> Tensor:
        """input_values (B,samples) -> x (B,S,W)."""
        frames = input_values[:, None]  # (B, 1, samples)
        for number, convolution in enumerate(self.convolutions):
            frames = convolution(frames)
            frames = self.act(self.channel_norm(frames) if number == 0 else frames)  # (B, channels, S)
        projected = self.project(self.norm(frames.mT))
        x: Tensor = projected + self.position(projected)  # (B, S, W)
        return self.final_norm(x)


class ConvolutionalPosition(nn.Conv1d):
    """Positions by a grouped convolution."""

    def __init__(self, spec: WaveformSpec):
        width, kernel, groups = spec.hidden_size, spec.position_kernel, spec.position_groups
        super().__init__(width, width, kernel, padding=kernel // 2, groups=groups)
        self.act = activation(spec.activation)
        self.even = kernel % 2 == 0

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> positions (B,S,W)."""
        convolved = super().forward(x.mT)
        if self.even:
            convolved = convolved[:, :, :-1]  # (B, W, S)
        positions: Tensor = self.act(convolved).mT  # (B, S, W)
        return positions


Embedding = WaveformEmbedding
