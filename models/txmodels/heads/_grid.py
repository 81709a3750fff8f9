"""The grid of an image's patches."""

import torch
from torch import Tensor


def patch_counts(side: int, pixel_values: Tensor) -> Tensor:
    """pixel_values (B,channels,height,width) -> rows, columns (2) of whole patches of `side` pixels."""
    return torch.tensor(pixel_values.shape[2:], device="cpu") // side
