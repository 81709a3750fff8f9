"""A pyramid of maps of layers or stages, added from coarse to fine; R rows and C columns of patches."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, max_pool2d

from txexport.spec import MapPyramidSpec, PyramidSpec
from txmodels.batch_norm import BatchNorm
from txmodels.bilinear import bilinear
from txmodels.convolution_norm import ConvolutionNorm


class Finest(nn.Module):
    """Each place of a map becomes sixteen by two transposed convolutions (Bao et al. 2022, B)."""

    def __init__(self, spec: PyramidSpec):
        super().__init__()
        width = spec.norm.size
        self.first = nn.ConvTranspose2d(width, width, 2, 2)
        self.norm = BatchNorm(spec.norm)
        self.second = nn.ConvTranspose2d(width, width, 2, 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,W,R,C) -> y (B,W,4R,4C)."""
        y: Tensor = self.second(gelu(self.norm(self.first(x))))
        return y


class MapPyramid(nn.Module):
    """The joint map of a pyramid of maps, the finest first (Xiao et al. 2018, 3.1)."""

    def __init__(self, spec: MapPyramidSpec):
        super().__init__()
        self.scales = spec.scales
        for name, part in _convolutions(spec).items():
            self.add_module(name, part)

    def forward(self, *maps: Tensor) -> Tensor:
        """maps (B,size,r,c) -> joint (B,W,R,C), of the places of the first one."""
        return _joined(self, self.scales, maps)


class Pyramid(nn.Module):
    """The joint map of a pyramid of four layers (Xiao et al. 2018, 3.1)."""

    def __init__(self, spec: PyramidSpec):
        super().__init__()
        self.spec, width = spec, spec.norm.size
        self.finest = Finest(spec)
        self.finer = nn.ConvTranspose2d(width, width, 2, 2)
        levels = MapPyramidSpec((width,) * len(spec.layers), spec.scales, spec.norm)
        for name, part in _convolutions(levels).items():
            self.add_module(name, part)

    def forward(self, states: dict[str, Tensor], grid: Tensor) -> Tensor:
        """states (B,S,W), grid (2): R and C -> joint (B,W,4R,4C)."""
        return _joined(self, self.spec.scales, self._rescaled(states, grid))

    def _rescaled(self, states: dict[str, Tensor], grid: Tensor) -> list[Tensor]:
        """Maps (B,W,4R,4C), (B,W,2R,2C), (B,W,R,C) and (B,W,R/2,C/2) of states (B,S,W)."""
        maps = [state[:, self.spec.tokens :].mT.unflatten(2, grid.tolist()) for state in states.values()]
        return [self.finest(maps[0]), self.finer(maps[1]), maps[2], max_pool2d(maps[3], 2)]


def _convolutions(spec: MapPyramidSpec) -> dict[str, nn.Module]:
    """The convolutions of a pyramid, each with a batch norm, by name."""
    (*finer, last), width = spec.sizes, spec.norm.size

    def normed(inputs: int, kernel: int) -> nn.Module:
        return ConvolutionNorm(inputs, width, kernel, 1, spec.norm.eps)

    return {
        "pools": nn.ModuleList(normed(last, 1) for _ in spec.scales),
        "pooled": normed(last + len(spec.scales) * width, 3),
        "laterals": nn.ModuleList(normed(size, 1) for size in finer),
        "outputs": nn.ModuleList(normed(width, 3) for _ in finer),
        "joint": normed(len(spec.sizes) * width, 3),
    }


def _joined(parts: Any, scales: Sequence[int], maps: Sequence[Tensor]) -> Tensor:
    """maps (B,size,r,c) -> joint (B,W,R,C), of the places of the first one."""
    sizes, last = [torch.tensor(one.shape[2:], device="cpu") for one in maps], len(maps) - 1
    levels = [torch.relu(parts.laterals[level](maps[level])) for level in range(last)]
    levels.append(_pooled(parts, scales, maps[last], sizes[last]))
    for level in range(last, 0, -1):
        levels[level - 1] = levels[level - 1] + bilinear(levels[level], sizes[level - 1])
    outputs = [torch.relu(parts.outputs[level](levels[level])) for level in range(last)]
    coarser = [bilinear(x, sizes[0]) for x in (*outputs[1:], levels[last])]
    joint = torch.relu(parts.joint(torch.cat([outputs[0], *coarser], dim=1)))
    return joint


def _pooled(parts: Any, scales: Sequence[int], x: Tensor, size: Tensor) -> Tensor:
    """A map and its means over squares of several scales (Zhao et al. 2017, 3.2).

    x (B,size,r,c), size (2): r and c -> (B,W,r,c).
    """
    pooled = [x]
    for pool, scale in zip(parts.pools, scales, strict=True):
        pooled.append(bilinear(torch.relu(pool(square_means(x, scale))), size))
    y = torch.relu(parts.pooled(torch.cat(pooled, dim=1)))
    return y


def _shares(scale: int, old: int, like: Tensor) -> Tensor:
    """Matrix (scale,old): the shares of `old` values in the mean of each of `scale` stretches.

    Stretch n goes from the floor of n old / scale to the ceiling of (n + 1) old / scale.
    """
    number = torch.arange(scale, device=like.device)
    start, end = (number * old // scale)[:, None], (((number + 1) * old + scale - 1) // scale)[:, None]
    order = torch.arange(old, device=like.device)
    within = (order >= start) & (order < end)
    matrix = within.to(like.dtype) / (end - start).to(like.dtype)
    return matrix


def square_means(x: Tensor, scale: int) -> Tensor:
    """x (B,W,r,c) -> the means (B,W,scale,scale) of overlapping parts of it."""
    down, across = (_shares(scale, side, x) for side in x.shape[2:])
    narrow = torch.tensordot(x, across, ([3], [1]))  # (B, W, r, scale)
    y = torch.tensordot(narrow, down, ([2], [1])).mT
    return y
