"""A feed-forward network whose activation has learned numbers (Huang and Schlag 2024, xIELU)."""

import torch
from torch import Tensor, nn

from txexport.spec import XieluFeedForwardSpec
from txmodels.activation import softplus
from txmodels.linear import Linear


class Xielu(nn.Module):
    """The integral of ELU and of a line, each with a learned slope (Huang and Schlag 2024, 3)."""

    def __init__(self) -> None:
        super().__init__()
        self.alpha_p = nn.Parameter(torch.zeros(1))
        self.alpha_n = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,F) -> y (B,S,F)."""
        beside = x * 0.5
        positive = x * x * softplus(self.alpha_p)
        below = torch.expm1(x.clamp(max=-1e-6))
        negative = (below - x) * (softplus(self.alpha_n) + 0.5)
        y = torch.where(x > 0, positive, negative) + beside
        return y


class XieluFeedForward(nn.Module):
    """Up, xIELU, down."""

    def __init__(self, spec: XieluFeedForwardSpec):
        super().__init__()
        self.up = Linear(spec.hidden_size, spec.intermediate_size, False)
        self.act = Xielu()
        self.down = Linear(spec.intermediate_size, spec.hidden_size, False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W)."""
        y: Tensor = self.down(self.act(self.up(x)))
        return y
