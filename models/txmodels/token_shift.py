"""Tokens and those before them, whose last one is kept between steps."""

import torch
from torch import Tensor


def token_shift(x: Tensor, past: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """The token before each one (Peng et al. 2023, RWKV, 3.1.1).

    x (B,S,W), past (B,W), ends (B) the tokens up to the last of each row -> shifted (B,S,W), present (B,W).
    """
    inputs = torch.cat([past[:, None], x], dim=1)  # (B, 1+S, W)
    shifted = inputs[:, :-1]  # (B, S, W)
    present = inputs[torch.arange(len(ends), device=ends.device), ends]  # (B, W)
    return shifted, present


def interpolated(x: Tensor, shifted: Tensor, share: Tensor) -> Tensor:
    """x and shifted (B,S,W), share (W) of x in the sum -> (B,S,W)."""
    return shifted + (x - shifted) * share
