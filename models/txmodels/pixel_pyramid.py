"""A feature pyramid: maps of several resolutions as one of the finest."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import GroupNormSpec, PixelPyramidSpec
from txmodels.group_norm import GroupNorm


class NormedConvolution(nn.Module):
    """A convolution and a group norm."""

    def __init__(self, inputs: int, kernel: int, norm: GroupNormSpec, bias: bool):
        super().__init__()
        self.convolution = nn.Conv2d(inputs, norm.size, kernel, padding=kernel // 2, bias=bias)
        self.norm = GroupNorm(norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,inputs,R,C) -> y (B,F,R,C)."""
        y: Tensor = self.norm(self.convolution(x))
        return y


class PixelPyramid(nn.Module):
    """The coarsest map, added to each finer one and convolved (Lin et al. 2017, 3)."""

    def __init__(self, spec: PixelPyramidSpec):
        super().__init__()
        *finer, coarsest = spec.sizes
        self.stem = NormedConvolution(coarsest, 3, spec.norm, False)
        self.sides = nn.ModuleList(NormedConvolution(size, 1, spec.norm, False) for size in reversed(finer))
        self.convolutions = nn.ModuleList(
            NormedConvolution(spec.norm.size, 3, spec.norm, False) for _ in finer
        )
        self.project = nn.Conv2d(spec.norm.size, spec.size, 3, padding=1)

    def forward(self, maps: dict[str, Tensor]) -> Tensor:
        """maps (B,channels,R,C), the finest first -> y (B,size,R,C) of its places."""
        *finer, coarsest = maps.values()
        x = torch.relu(self.stem(coarsest))  # (B, F, r, c)
        for number, fine in enumerate(reversed(finer)):
            side = self.sides[number](fine)
            x = torch.relu(self.convolutions[number](nearest(x, side) + side))
        y: Tensor = self.project(x)
        return y


def nearest(x: Tensor, fine: Tensor) -> Tensor:
    """x (B,F,r,c), fine (B,F,R,C) -> y (B,F,R,C): the nearest place of x."""
    y = F.interpolate(x, fine.shape[2:], mode="nearest")
    return y
