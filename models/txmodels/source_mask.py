"""The mask of a sound's vectors, which convolutions make of fewer of its samples or frames."""

import torch
from torch import Tensor


def source_mask(convolutions: tuple[tuple[int, int], ...], attention_mask: Tensor, vectors: int) -> Tensor:
    """attention_mask (B,N) of 0 and 1 -> mask (B,E), E vectors: 1 for those of real samples or frames.

    Each of the `convolutions` is a kernel and a stride.
    """
    lengths = attention_mask.sum(1, keepdim=True)  # (B, 1)
    for kernel, stride in convolutions:
        lengths = (lengths - kernel) // stride + 1
    mask = (torch.arange(vectors, device=attention_mask.device) < lengths).long()
    return mask
