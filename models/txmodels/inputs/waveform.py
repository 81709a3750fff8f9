"""Waveforms through convolutions (Baevski et al. 2020, 2)."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from txexport.spec import (
    BatchNormSpec,
    ConvolutionNorm,
    ConvolutionSpec,
    NormSpec,
    PositionNorm,
    WaveformSpec,
)
from txmodels.activation import activation
from txmodels.batch_norm import BatchNorm
from txmodels.linear import Linear
from txmodels.norm import Norm

EPSILON = 1e-5  # of the norms of convolutions


class WaveformEmbedding(nn.Module):
    """Convolutions over samples, projected, plus positions by a convolution over the projected vectors."""

    def __init__(self, spec: WaveformSpec):
        super().__init__()
        self.spec = spec
        sizes = [1, *(convolution.size for convolution in spec.convolutions)]
        self.act = activation(spec.activation)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(channels, convolution.size, convolution.kernel, convolution.stride, bias=spec.bias)
            for channels, convolution in zip(sizes, spec.convolutions, strict=False)
        )
        if spec.convolution_norm == ConvolutionNorm.GROUP:
            self.channel_norm = nn.GroupNorm(sizes[1], sizes[1], EPSILON)
        else:
            self.convolution_norms = nn.ModuleList(Norm(NormSpec(size, EPSILON)) for size in sizes[1:])
        self.norm = Norm(spec.norm) if spec.norm else nn.Identity()
        self.project = Linear(sizes[-1], spec.hidden_size) if spec.projected else nn.Identity()
        if spec.position_kernel is not None:
            layers = [ConvolutionalPosition(spec, spec.position_kernel) for _ in range(spec.position_layers)]
            if spec.position_norm == PositionNorm.LAYER:
                self.positions = nn.ModuleList(layers)
            else:
                [self.position] = layers
        self.final_norm = Norm(spec.final_norm) if spec.final_norm else nn.Identity()

    def forward(
        self, input_values: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """input_values (B,samples) -> x (B,S,W); with attention_mask (B,samples), also mask (B,S)."""
        frames = input_values[:, None]  # (B, 1, samples)
        for number, convolution in enumerate(self.convolutions):
            frames = self.act(self._normed(number, convolution(frames)))  # (B, channels, S)
        projected = self.project(self.norm(frames.mT))  # (B, S, W)
        if attention_mask is None:
            return self._positioned(projected)
        mask = vector_mask(self.spec.convolutions, attention_mask, projected)
        return self._positioned(projected.masked_fill(mask[:, :, None] == 0, 0)), mask

    def _normed(self, number: int, frames: Tensor) -> Tensor:
        """The output of a convolution, frames (B,channels,S), normalised."""
        if self.spec.convolution_norm == ConvolutionNorm.LAYER:
            return self.convolution_norms[number](frames.mT).mT
        return self.channel_norm(frames) if number == 0 else frames

    def _positioned(self, projected: Tensor) -> Tensor:
        """projected (B,S,W) -> x (B,S,W)."""
        if self.spec.position_kernel is None:
            return self.final_norm(projected)
        positions = projected
        for position in self.positions if self.spec.position_norm == PositionNorm.LAYER else [self.position]:
            positions = position(positions)  # (B, S, W)
        x: Tensor = projected + positions
        return self.final_norm(x)


def vector_mask(convolutions: Iterable[ConvolutionSpec], attention_mask: Tensor, x: Tensor) -> Tensor:
    """attention_mask (B,samples) of 0 and 1, x (B,S,W) -> mask (B,S): 1 for the vectors of real samples."""
    lengths = attention_mask.sum(1)  # (B)
    for convolution in convolutions:
        lengths = (lengths - convolution.kernel) // convolution.stride + 1
    mask = (torch.arange(x.shape[1], device=x.device) < lengths[:, None]).long()
    return mask


class ConvolutionalPosition(nn.Conv1d):
    """Positions by a grouped convolution."""

    def __init__(self, spec: WaveformSpec, kernel: int):
        width, groups = spec.hidden_size, spec.position_groups
        super().__init__(width, width, kernel, padding=kernel // 2, groups=groups)
        self.act = activation(spec.activation)
        self.even, self.kind = kernel % 2 == 0, spec.position_norm
        if self.kind == PositionNorm.BATCH:
            self.norm = BatchNorm(BatchNormSpec(width, EPSILON))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> positions (B,S,W)."""
        channels = self.norm(x.mT) if self.kind == PositionNorm.BATCH else x.mT  # (B, W, S)
        convolved = super().forward(channels)
        if self.even:
            convolved = convolved[:, :, :-1]  # (B, W, S)
        if self.kind == PositionNorm.LAYER:
            convolved = nn.functional.layer_norm(convolved.mT, (x.shape[2],), eps=EPSILON).mT
        positions: Tensor = self.act(convolved).mT  # (B, S, W)
        return positions


Embedding = WaveformEmbedding
