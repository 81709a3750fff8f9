"""Learned factors of what passes."""

import torch
from torch import Tensor, nn


class Scale(nn.Module):
    """LayerScale: a learned factor for each channel (Touvron et al. 2021, 3.1)."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> (B,S,W)."""
        return x * self.weight


class Gate(nn.Module):
    """The tanh of a learned number (Alayrac et al. 2022, 2.2)."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """x (...,W) -> y (...,W)."""
        y = x * self.weight.tanh()
        return y
