"""Normalisation of maps in groups of channels."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import GroupNormSpec


class GroupNorm(nn.Module):
    """Normalisation of groups of channels over all places (Wu and He 2018, 3)."""

    def __init__(self, spec: GroupNormSpec):
        super().__init__()
        self.groups, self.eps = spec.groups, spec.eps
        self.weight = nn.Parameter(torch.ones(spec.size))
        self.bias = nn.Parameter(torch.zeros(spec.size))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,F,R,C) -> y (B,F,R,C)."""
        y = F.group_norm(x, self.groups, self.weight, self.bias, self.eps)
        return y
