"""Convolutions over time with a gated linear unit."""

import torch.nn.functional as F
from torch import Tensor, nn


class GatedConvolution(nn.Conv1d):
    """A convolution over time; the second half of its channels gates the first (Dauphin et al. 2017, 2)."""

    def __init__(self, width: int, size: int, kernel: int, stride: int, padding: int):
        super().__init__(width, 2 * size, kernel, stride, padding)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S',size)."""
        y: Tensor = F.glu(super().forward(x.mT), dim=1).mT  # (B, S', size)
        return y
