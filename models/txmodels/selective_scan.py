"""Selective scans: a recurrence over tokens, with a state of a few numbers for each channel."""

import torch
from torch import Tensor

from txmodels.chunks import decayed


def selective_scan(
    x: Tensor, steps: Tensor, b: Tensor, c: Tensor, rate: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Each token decays the numbers of a channel, adds its input along b to them, and reads them along c.

    That is h = exp(step rate) h + x b and y = h · c (Gu and Dao 2023, 3.2; x is times the step already).
    x and steps (B,S,I), b and c (B,S,D), rate (I,D), state (B,I,D) -> y (B,S,I), state.
    """
    outputs = []
    for added, step, writes, reads in zip(*(one.unbind(1) for one in (x, steps, b, c)), strict=True):
        rest = decayed(step[:, :, None] * rate)  # (B, I, D)
        state = state * rest + added[:, :, None] * writes[:, None]
        outputs.append((state @ reads[:, :, None])[:, :, 0])  # (B, I)
    return torch.stack(outputs, dim=1), state
