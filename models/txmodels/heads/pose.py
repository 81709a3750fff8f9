"""Heat maps of the points of a body (Xu et al. 2022, 3.1)."""

import torch
from torch import Tensor, nn

from txexport.spec import HeadSpec, PoseSpec
from txmodels.batch_norm import BatchNorm
from txmodels.bilinear import bilinear
from txmodels.heads._grid import patch_counts


class PoseHead(nn.Module):
    """A heat map for each point, from the patches of one state (Xu et al. 2022, 3.1 and 3.2)."""

    def __init__(self, spec: PoseSpec, hidden_size: int, points: int):
        super().__init__()
        self.spec, norm = spec, spec.norm
        if norm is None:
            self.project = nn.Conv2d(hidden_size, points, 3, padding=1)
            return
        self.first = nn.ConvTranspose2d(hidden_size, norm.size, 4, 2, 1, bias=False)
        self.first_norm = BatchNorm(norm)
        self.second = nn.ConvTranspose2d(norm.size, norm.size, 4, 2, 1, bias=False)
        self.second_norm = BatchNorm(norm)
        self.project = nn.Conv2d(norm.size, points, 1)

    def forward(self, states: dict[str, Tensor], pixel_values: Tensor) -> Tensor:
        """states (B,S,W), pixel_values (B,channels,height,width) -> heatmaps (B,points,factor R,factor C).

        R and C are the rows and columns of patches.
        """
        (x,) = states.values()
        grid = patch_counts(self.spec.patch_size, pixel_values)
        x = x[:, self.spec.tokens :].mT.unflatten(2, grid.tolist())  # (B, W, R, C)
        if self.spec.norm is None:
            x = bilinear(torch.relu(x), grid * self.spec.factor)
        else:
            x = torch.relu(self.first_norm(self.first(x)))
            x = torch.relu(self.second_norm(self.second(x)))
        heatmaps: Tensor = self.project(x)
        return heatmaps


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> PoseHead:
    """The head of a model's spec."""
    assert spec.pose is not None
    return PoseHead(spec.pose, hidden_size, spec.labels)
