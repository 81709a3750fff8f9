"""Spectrograms through convolutions over time and frequency (Rekesh et al. 2023, 2.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import SubsampledSpec
from txmodels.linear import Linear


class SubsampledEmbedding(nn.Module):
    """Convolutions with a stride in time and frequency, projected; padding is zeros after each of them."""

    def __init__(self, spec: SubsampledSpec):
        super().__init__()
        self.spec, size = spec, spec.channels
        sliding = spec.kernel, spec.stride, spec.kernel // 2
        self.first = nn.Conv2d(1, size, *sliding)
        later = range(spec.layers - 1)
        self.depthwise = nn.ModuleList(nn.Conv2d(size, size, *sliding, groups=size) for _ in later)
        self.pointwise = nn.ModuleList(nn.Conv2d(size, size, 1) for _ in later)
        self.project = Linear(size * spec.bands, spec.hidden_size)

    def forward(self, input_features: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """input_features (B,frames,bands), attention_mask (B,frames) -> x (B,S,W), mask (B,S)."""
        lengths = self._after(attention_mask.sum(1, keepdim=True))  # (B, 1)
        frames = self._real(
            self.first(input_features[:, None]), lengths
        ).relu()  # (B, channels, frames, bands)
        for depthwise, pointwise in zip(self.depthwise, self.pointwise, strict=True):
            lengths = self._after(lengths)
            frames = self._real(depthwise(frames), lengths)
            frames = self._real(pointwise(frames), lengths).relu()
        x: Tensor = self.project(frames.transpose(1, 2).flatten(2))  # (B, S, W)
        if self.spec.scale != 1:
            x = x * self.spec.scale
        order = torch.arange(x.shape[1], device=x.device)  # (S)
        mask = (order < lengths).long()  # (B, S)
        return x, mask

    def _after(self, lengths: Tensor) -> Tensor:
        """The lengths (B,1) of rows after a convolution with a stride."""
        return (lengths - 1) // self.spec.stride + 1

    def _real(self, frames: Tensor, lengths: Tensor) -> Tensor:
        """frames (B,channels,frames,bands) with zeros beyond lengths (B,1)."""
        order = torch.arange(frames.shape[2], device=frames.device)
        return frames.masked_fill((order >= lengths)[:, None, :, None], 0.0)


Embedding = SubsampledEmbedding
