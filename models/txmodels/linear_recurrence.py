"""Linear recurrences over tokens, of one number for each channel."""

import torch
from torch import Tensor


def linear_recurrence(decay: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Each token decays the state and adds its input: h = a h + x (De et al. 2024, 2.4).

    decay and x (B,S,W), state (B,W) -> y (B,S,W), state. One token needs no loop.
    """
    step = one_token if x.shape[1] == 1 else by_token
    return step(decay, x, state)


def one_token(decay: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """As `linear_recurrence`, for S=1."""
    y = state[:, None] * decay + x  # (B, 1, W)
    return y, y[:, 0]


def by_token(decay: Tensor, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """As `linear_recurrence`, for any S."""
    outputs = []
    for rest, added in zip(decay.unbind(1), x.unbind(1), strict=True):
        state = state * rest + added
        outputs.append(state)
    return torch.stack(outputs, dim=1), state
