"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import DepthSpec, HeadSpec
from txmodels.feature_fusion import FeatureMaps, corner_aligned


class DepthHead(nn.Module):
    """Depth of every pixel, from the states of several layers (Ranftl et al. 2021, 3.1)."""

    def __init__(self, spec: DepthSpec, hidden_size: int):
        super().__init__()
        self.spec = spec
        size = spec.fusion.size
        self.neck = FeatureMaps(spec.fusion, hidden_size)
        self.halve = nn.Conv2d(size, size // 2, 3, padding=1)
        self.convolve = nn.Conv2d(size // 2, spec.head_size, 3, padding=1)
        self.project = nn.Conv2d(spec.head_size, 1, 1)

    def forward(self, states: dict[str, Tensor], pixel_values: Tensor) -> Tensor:
        """states (B,S,W), pixel_values (B,channels,height,width) -> depth (B,height,width).

        Pixels beyond the last whole patch are left out.
        """
        side = self.spec.fusion.patch_size
        grid = torch.tensor(pixel_values.shape[2:], device="cpu") // side  # (2)
        x = self.neck(states, grid)
        x = corner_aligned(self.halve(x), grid * side)
        x = self.project(torch.relu(self.convolve(x)))  # (B, 1, height, width)
        x = torch.sigmoid(x) if self.spec.metric else torch.relu(x)
        depth: Tensor = x.squeeze(1) * self.spec.max_depth
        return depth


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> DepthHead:
    """The head of a model's spec."""
    assert spec.depth is not None
    return DepthHead(spec.depth, hidden_size)
