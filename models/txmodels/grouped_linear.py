"""Projection of the last axis in groups, each of its own part of the vector and of the output."""

import torch
from torch import Tensor, nn

from txmodels.linear import Linear


class GroupedLinear(nn.Module):
    """x (..., in) -> y (..., out), as a convolution of kernel 1 in groups (Iandola et al. 2020, 3.2)."""

    def __init__(self, inputs: int, outputs: int, bias: bool, groups: int):
        super().__init__()
        self.groups = nn.ModuleList(Linear(inputs // groups, outputs // groups, bias) for _ in range(groups))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> y (..., out)."""
        parts = x.chunk(len(self.groups), dim=-1)  # (..., in / G) each
        y = torch.cat([linear(part) for linear, part in zip(self.groups, parts, strict=True)], dim=-1)
        return y


def grouped_linear(inputs: int, outputs: int, bias: bool, groups: int) -> Linear | GroupedLinear:
    """The projection in `groups`; a plain one for a single group."""
    return Linear(inputs, outputs, bias) if groups == 1 else GroupedLinear(inputs, outputs, bias, groups)
