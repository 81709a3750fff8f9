"""Maps of two resolutions, added by learned shares."""

import torch
from torch import Tensor, nn

from txexport.spec import StagedDepthSpec
from txmodels.batch_norm import BatchNorm


class SelectiveFusion(nn.Module):
    """A map and a coarser one of as many places, each by its share (Kim et al. 2022, 3.3)."""

    def __init__(self, spec: StagedDepthSpec):
        super().__init__()
        size, half = spec.size, spec.size // 2
        first_norm, second_norm = spec.norms
        self.first = nn.Conv2d(2 * size, size, 3, padding=1)
        self.first_norm = BatchNorm(first_norm)
        self.second = nn.Conv2d(size, half, 3, padding=1)
        self.second_norm = BatchNorm(second_norm)
        self.share = nn.Conv2d(half, 2, 3, padding=1)

    def forward(self, x: Tensor, coarse: Tensor) -> Tensor:
        """x, coarse (B,F,height,width) -> y, of the same shape."""
        both = torch.cat([x, coarse], dim=1)
        first = torch.relu(self.first_norm(self.first(both)))
        second = torch.relu(self.second_norm(self.second(first)))  # (B, F/2, height, width)
        shares = torch.sigmoid(self.share(second))
        of_x, of_coarse = shares.chunk(2, dim=1)  # (B, 1, height, width)
        y = x * of_x + coarse * of_coarse
        return y
