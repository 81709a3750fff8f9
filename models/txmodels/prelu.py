"""PReLU, an activation with a learned slope (He et al. 2015, 2.1)."""

import torch
from torch import Tensor, nn


class Prelu(nn.Module):
    """Numbers below 0 multiplied by one learned slope."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((1,), 0.25))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,F) -> y (B,S,F)."""
        y = torch.where(x < 0, x * self.weight, x)
        return y
