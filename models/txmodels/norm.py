"""Normalisation over the last axis."""

import torch
from torch import Tensor, nn

from txexport.spec import NormKind, NormSpec


class Norm(nn.Module):
    """Layer normalisation (Ba et al. 2016, 3) or root mean square (Zhang and Sennrich 2019, 3).

    Or a scale and a shift alone (Sun et al. 2020, 3.3).
    """

    def __init__(self, spec: NormSpec):
        super().__init__()
        self.kind, self.eps = spec.kind, spec.eps
        self.weight = nn.Parameter(torch.ones(spec.size))
        self.bias = nn.Parameter(torch.zeros(spec.size)) if spec.bias and self.kind != NormKind.RMS else None

    def forward(self, x: Tensor) -> Tensor:
        """x (..., W) -> y (..., W)."""
        if self.kind == NormKind.NONE:
            assert self.bias is not None
            y = x * self.weight + self.bias
        elif self.kind == NormKind.RMS:
            y = nn.functional.rms_norm(x, self.weight.shape, self.weight, self.eps)
        else:
            y = nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)
        return y
