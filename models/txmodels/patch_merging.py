"""From one stage of a stack to the next: a quarter of the vectors, each of four."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import ConvolvedMergingSpec, MergingSpec, QueryPoolingSpec, StageMergingSpec
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.query_pooling import QueryPooling


class PatchMerging(nn.Module):
    """Squares of four vectors, side by side, projected (Liu et al. 2021, 3.1)."""

    def __init__(self, spec: MergingSpec):
        super().__init__()
        self.norm_last = spec.norm_last
        self.norm = Norm(spec.norm)
        self.project = Linear(spec.joined, spec.size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R/2,C/2,size), R/2 and C/2 rounded up; odd grids are padded by zeros."""
        joined = squares(x)  # (B, R/2, C/2, 4W)
        if self.norm_last:
            last: Tensor = self.norm(self.project(joined))
            return last
        y: Tensor = self.project(self.norm(joined))
        return y


class ConvolvedMerging(nn.Module):
    """Vectors and those around them, convolved to fewer (Xie et al. 2021, 3.1)."""

    def __init__(self, spec: ConvolvedMergingSpec):
        super().__init__()
        around = spec.kernel // 2
        self.project = nn.Conv2d(spec.hidden_size, spec.size, spec.kernel, spec.stride, around)
        self.norm = Norm(spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R/stride,C/stride,size), rounded up."""
        y: Tensor = self.norm(self.project(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))
        return y


def merging(spec: StageMergingSpec) -> nn.Module:
    """The merging between two stages, or the layer that pools."""
    if isinstance(spec, QueryPoolingSpec):
        return QueryPooling(spec)
    return PatchMerging(spec) if isinstance(spec, MergingSpec) else ConvolvedMerging(spec)


def squares(x: Tensor) -> Tensor:
    """x (B,R,C,W) -> (B,R/2,C/2,4W): top left, bottom left, top right, bottom right."""
    padded = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
    apart = padded.unflatten(2, (-1, 2)).unflatten(1, (-1, 2))  # (B, R/2, 2, C/2, 2, W)
    y = apart.permute(0, 1, 3, 4, 2, 5).flatten(3)
    return y
