"""Chunks of tokens, and the decay from each token to later ones in its chunk."""

import torch
import torch.nn.functional as F
from torch import Tensor

MOST = 64  # tokens of a chunk
FAINT = 1e-26  # smaller factors become 0: products with denormal numbers take a hundred times as long


def chunked(x: Tensor, size: int) -> Tensor:
    """x (B,S,V,D) -> (N,B,V,C,D), chunks of `size` tokens; zeros fill up the last one."""
    padded = F.pad(x, (0, 0, 0, 0, 0, -x.shape[1] % size))  # (B, N*C, V, D)
    y = padded.unflatten(1, (-1, size)).permute(1, 0, 3, 2, 4)  # (N, B, V, C, D)
    return y


def transposed(x: Tensor) -> Tensor:
    """x (N,B,V,C,D) -> (N,B,V,D,C)."""
    y = x.mT
    return y


def decayed(x: Tensor) -> Tensor:
    """exp(x), or 0 where that is below FAINT."""
    y = F.threshold(x.exp(), FAINT, 0)
    return y


def decays(decay: Tensor) -> Tensor:
    """decay (N,B,H,1,C) of logarithms -> the decay (N,B,H,C,C) from each token to itself and later ones.

    The logarithms between two tokens are summed directly: differences of cumulative sums lose digits.
    """
    upper = torch.ones(decay.shape[4], decay.shape[4], dtype=decay.dtype, device=decay.device).triu()
    between = decayed((decay * upper.triu(1)) @ upper) * upper
    return between
