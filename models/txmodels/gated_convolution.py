"""Convolutions over time with a gated linear unit."""

import torch.nn.functional as F
from torch import Tensor, nn


class GatedConvolution(nn.Conv1d):
    """A convolution with a stride, whose second half of channels gates the first (Dauphin et al. 2017, 2)."""

    def __init__(self, size: int, out_size: int, kernel: int, stride: int):
        super().__init__(size, out_size, kernel, stride, padding=kernel // 2)

    def forward(self, frames: Tensor) -> Tensor:
        """frames (B,channels,S) -> gated (B,channels,S), of half the convolution's channels."""
        gated = F.glu(super().forward(frames), dim=1)
        return gated
