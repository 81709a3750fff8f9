"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import DepthSpec, HeadSpec, StagedDepthSpec
from txmodels.bilinear import bilinear
from txmodels.feature_fusion import FeatureMaps, corner_aligned
from txmodels.selective_fusion import SelectiveFusion


class DepthHead(nn.Module):
    """Depth of every pixel, from the states of several layers (Ranftl et al. 2021, 3.1)."""

    def __init__(self, spec: DepthSpec, hidden_size: int):
        super().__init__()
        self.spec = spec
        size = spec.fusion.size
        self.neck = FeatureMaps(spec.fusion, hidden_size)
        self.projection = nn.Conv2d(size, size, 3, padding=1) if spec.projected else None
        self.halve = nn.Conv2d(size, size // 2, 3, padding=1)
        self.convolve = nn.Conv2d(size // 2, spec.head_size, 3, padding=1)
        self.project = nn.Conv2d(spec.head_size, 1, 1)

    def forward(self, states: dict[str, Tensor], pixel_values: Tensor) -> Tensor:
        """states (B,S,W), pixel_values (B,channels,height,width) -> depth (B,height,width).

        Pixels beyond the last whole patch are left out; where maps double, the depth has twice the rows and
        columns of the fused one.
        """
        side = self.spec.fusion.patch_size
        grid = torch.tensor(pixel_values.shape[2:], device="cpu") // side  # (2)
        x = self.neck(states, grid)
        if self.projection is not None:
            x = torch.relu(self.projection(x))
        x = self.halve(x)
        double = 2 * torch.tensor(x.shape[2:], device="cpu")
        x = corner_aligned(x, double if self.spec.fusion.doubling else grid * side)
        x = self.project(torch.relu(self.convolve(x)))  # (B, 1, height, width)
        x = torch.sigmoid(x) if self.spec.metric else torch.relu(x)
        depth: Tensor = x.squeeze(1) * self.spec.max_depth
        return depth


class StagedDepthHead(nn.Module):
    """Depth of every pixel, from the maps of all stages (Kim et al. 2022, 3.2)."""

    def __init__(self, spec: StagedDepthSpec):
        super().__init__()
        self.spec, size = spec, spec.size
        self.projects = nn.ModuleList(
            nn.Identity() if one == size else nn.Conv2d(one, size, 1) for one in spec.sizes
        )
        self.fusions = nn.ModuleList(SelectiveFusion(spec) for _ in spec.sizes[:-1])
        self.convolve = nn.Conv2d(size, size, 3, padding=1)
        self.depth = nn.Conv2d(size, 1, 3, padding=1)

    def forward(self, maps: dict[str, Tensor]) -> Tensor:
        """maps (B,R,C,W), the finest first -> depth (B,4R,4C), of the finest one's places."""
        x = None
        for number in range(len(self.spec.sizes) - 1, -1, -1):
            y = self.projects[number](maps[str(number)].permute(0, 3, 1, 2))  # (B, W, R, C)
            if x is not None:
                y = self.fusions[number](y, x)
            x = _doubled(y)
        assert x is not None
        x = torch.relu(self.convolve(_doubled(x)))
        x = torch.sigmoid(self.depth(x))  # (B, 1, 4R, 4C)
        depth: Tensor = x.squeeze(1) * self.spec.max_depth
        return depth

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """The graph's output: predicted_depth (B,4R,4C)."""
        return {names.PREDICTED_DEPTH: self(maps)}


def _doubled(x: Tensor) -> Tensor:
    """x (B,F,R,C) -> (B,F,2R,2C), bilinear between the centres of places."""
    return bilinear(x, 2 * torch.tensor(x.shape[2:], device="cpu"))


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> DepthHead | StagedDepthHead:
    """The head of a model's spec."""
    if isinstance(spec.depth, StagedDepthSpec):
        return StagedDepthHead(spec.depth)
    assert spec.depth is not None
    return DepthHead(spec.depth, hidden_size)
