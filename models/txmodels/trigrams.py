"""Neighbouring vectors of a sequence, side by side."""

import torch
import torch.nn.functional as F
from torch import Tensor


def trigrams(x: Tensor) -> Tensor:
    """x (B,S,W) -> y (B,S,3*W): the next vector, each itself, and the one before; zeros beyond the ends."""
    after, before = F.pad(x[:, 1:], (0, 0, 0, 1)), F.pad(x[:, :-1], (0, 0, 1, 0))
    y = torch.cat([after, x, before], dim=2)
    return y
