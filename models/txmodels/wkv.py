"""Means of past values, whose weights decay by a constant of each channel (WKV)."""

import torch
from torch import Tensor

NOTHING = -1e38  # the maximum of a row without past tokens
HIDDEN = 3e38  # subtracted from the keys of padding, whose weights are then 0 even beside NOTHING


def wkv(
    k: Tensor,
    v: Tensor,
    decay: Tensor,
    bonus: Tensor,
    numerator: Tensor,
    denominator: Tensor,
    maximum: Tensor,
    real: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The mean of all values, by weights that decay (Peng et al. 2023, RWKV, 3.1.2).

    A weight is e^k, times e^decay for every later token; the token's own is e^(k + bonus). The sums of
    weighted values and of weights are kept divided by e^maximum, so that no exponential overflows.

    k and v (B,S,W), decay and bonus (W), numerator, denominator and maximum (B,W), real (B,S,1) is 0 for
    padding -> y (B,S,W), numerator, denominator, maximum. One token needs no loop.
    """
    counted, rest, maximum = counted_keys(k, decay, denominator, maximum, real)
    step = one_token if k.shape[1] == 1 else by_token
    *before, numerator, denominator, maximum = step(counted, v, rest, numerator, denominator, maximum)
    return mean(k + bonus, v, *before), numerator, denominator, maximum


def counted_keys(
    k: Tensor, decay: Tensor, denominator: Tensor, maximum: Tensor, real: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Keys and decays without the effect of padding, and a maximum also for rows without past tokens.

    k (B,S,W), decay (W), denominator and maximum (B,W), real (B,S,1) -> k, decay (B,S,W), maximum (B,W).
    """
    counted = k + (real - 1) * HIDDEN  # (B, S, W)
    known = torch.where(denominator == 0, NOTHING, maximum)
    return counted, real * decay, known


def mean(current: Tensor, v: Tensor, numerator: Tensor, denominator: Tensor, maximum: Tensor) -> Tensor:
    """Values v (B,S,W) of weights e^current, and the sums before them, all (B,S,W) -> their means (B,S,W)."""
    highest = torch.maximum(maximum, current)
    past, new = (maximum - highest).exp(), (current - highest).exp()
    return (past * numerator + new * v) / (past * denominator + new)


def one_token(
    k: Tensor, v: Tensor, decay: Tensor, numerator: Tensor, denominator: Tensor, maximum: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """As `by_token`, for S=1."""
    before = numerator[:, None], denominator[:, None], maximum[:, None]  # (B, 1, W)
    later, key = maximum + decay[:, 0], k[:, 0]  # (B, W)
    highest = torch.maximum(later, key)
    rest, weight = (later - highest).exp(), (key - highest).exp()
    return *before, rest * numerator + weight * v[:, 0], rest * denominator + weight, highest


def by_token(
    k: Tensor, v: Tensor, decay: Tensor, numerator: Tensor, denominator: Tensor, maximum: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """k, v, decay (B,S,W), sums and their maximum (B,W) -> those before each token (B,S,W), and the last."""
    numerators, denominators, maxima = [], [], []
    for key, value, slower in zip(k.unbind(1), v.unbind(1), decay.unbind(1), strict=True):
        numerators.append(numerator)
        denominators.append(denominator)
        maxima.append(maximum)
        later = maximum + slower  # (B, W)
        highest = torch.maximum(later, key)
        rest, weight = (later - highest).exp(), (key - highest).exp()
        numerator, denominator = rest * numerator + weight * value, rest * denominator + weight
        maximum = highest
    before = torch.stack(numerators, 1), torch.stack(denominators, 1), torch.stack(maxima, 1)  # (B, S, W)
    return *before, numerator, denominator, maximum
