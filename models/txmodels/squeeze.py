"""Squeezing and upsampling around a stack's layers (Wu et al. 2022)."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import SqueezeSpec
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.norm import Norm


class Squeeze(nn.Module):
    """Means of groups of vectors, plus positions by a convolution with their stride, normalised."""

    def __init__(self, spec: SqueezeSpec):
        super().__init__()
        self.spec, width, kernel = spec, spec.norm.size, spec.position_kernel
        self.position = nn.Conv1d(
            width, width, kernel, spec.factor, padding=kernel // 2, groups=spec.position_groups
        )
        self.act = activation(spec.activation)
        self.norm = Norm(spec.norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S/factor,W)."""
        means = F.avg_pool1d(x.mT, self.spec.factor)  # (B, W, S/factor)
        positions = self.act(self.position(x.mT)[:, :, : means.shape[2]])  # (B, W, S/factor)
        y: Tensor = self.norm((means + positions).mT)  # (B, S/factor, W)
        return y


class PooledMask(nn.Module):
    """The mask of groups: 1 for those with a vector of the signal."""

    def __init__(self, spec: SqueezeSpec):
        super().__init__()
        self.factor = spec.factor

    def forward(self, mask: Tensor) -> Tensor:
        """mask (B,S) of 0 and 1 -> pooled (B,S/factor)."""
        pooled = F.max_pool1d(mask[:, None].float(), self.factor)[:, 0].long()  # (B, S/factor)
        return pooled


class Upsampling(nn.Module):
    """A projection that makes several vectors of each, and zeros up to a length."""

    def __init__(self, spec: SqueezeSpec):
        super().__init__()
        self.project = Linear(spec.norm.size, spec.norm.size * spec.factor)
        self.act = activation(spec.activation)

    def forward(self, x: Tensor, frames: Tensor) -> Tensor:
        """x (B,S/factor,W), frames (B,S,W) -> y (B,S,W)."""
        wide = self.act(self.project(x)).reshape(x.shape[0], -1, x.shape[2])  # (B, S/factor*factor, W)
        y = F.pad(wide, (0, 0, 0, frames.shape[1] - wide.shape[1]))  # (B, S, W)
        return y
