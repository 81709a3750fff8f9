"""Batch normalisation with the statistics of training."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import BatchNormSpec


class BatchNorm(nn.Module):
    """Normalisation of channels by the mean and the variance of training (Ioffe and Szegedy 2015, 3.1)."""

    def __init__(self, spec: BatchNormSpec):
        super().__init__()
        self.eps = spec.eps
        self.weight = nn.Parameter(torch.ones(spec.size))
        self.bias = nn.Parameter(torch.zeros(spec.size))
        self.mean = nn.Parameter(torch.zeros(spec.size), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(spec.size), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,W,S) -> (B,W,S)."""
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, eps=self.eps)
