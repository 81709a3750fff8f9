"""Maps interpolated to another size."""

import torch.nn.functional as F
from torch import Tensor


def bilinear(x: Tensor, size: Tensor) -> Tensor:
    """x (B,F,r,c), size (2) -> y (B,F,*size), bilinear between the centres of pixels."""
    y = F.interpolate(x, size.tolist(), mode="bilinear")
    return y
