"""The delta rule with a decay of each channel of a key, over chunks of tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor

from txmodels.chunks import chunked, decayed, transposed
from txmodels.delta_rule import CHUNK, inverted, joined, one_token, scanned, squares


def channel_delta_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Each token decays the rows of the state, replaces a part of what its key reads there, and reads it.

    As `delta_rule`, with S = diag(exp(decay)) S before the correction (Kimi Team 2025, 3.1). q, k and decay
    (B,S,V,D), v (B,S,V,E), beta (B,S,V,1), state (B,V,D,E) -> y (B,S,V,E), state.

    One token needs no chunks.
    """
    step = one_token if q.shape[1] == 1 else by_chunks
    return step(q, k, v, decay, beta, state)


def by_chunks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """As `channel_delta_rule`, for any S."""
    length = q.shape[1]
    size = min(length, CHUNK)
    q, k, v, decay, beta = (chunked(x, size) for x in (q, k, v, decay, beta))  # (N, B, V, C, ...)
    between, scores = products(q, k, decay)  # (N, B, V, C, C)
    inverse = inverted(beta * between)  # (N, B, V, C, C)
    values = inverse @ (beta * v)  # (N, B, V, C, E)
    sums = decay.cumsum(3)  # (N, B, V, C, D)
    growth, left = decayed(sums), decayed(after(decay))
    weights = inverse @ (beta * k * growth)  # (N, B, V, C, D)
    shares = decayed(transposed(sums[:, :, :, -1:]))  # (N, B, V, D, 1)
    outputs, state = scanned(state, q * growth, k * left, values, weights, scores, shares)
    return joined(outputs)[:, :length], state


def after(decay: Tensor) -> Tensor:
    """decay (N,B,V,C,D) -> sums (N,B,V,C,D) of the logarithms of later tokens."""
    later = F.pad(decay[:, :, :, 1:], (0, 0, 0, 1))
    sums = later.flip(3).cumsum(3).flip(3)
    return sums


def products(q: Tensor, k: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """Products of keys, and of queries, with keys that decay up to them.

    Two tokens are in neighbouring squares of exactly one of the sizes 1, 2, 4 ... (`levels` in delta_rule).
    Their decay is that of the earlier one up to the boundary of the two squares, times that of the later one
    from there: both are at most 1, where exp(sum) and exp(-sum) of one token each would overflow. q, k and
    decay (N,B,V,C,D) -> between, below the diagonal only, and scores (N,B,V,C,C).
    """
    plain = q @ transposed(k)  # (N, B, V, C, C)
    one, masks = squares(plain)
    between, scores = torch.zeros_like(plain), plain * one
    for mask, reach in zip(masks, spans_of(plain), strict=True):
        share = decayed(reach @ decay)  # (N, B, V, C, D)
        keys = k * share
        turned = transposed(keys)  # (N, B, V, D, C)
        between = between + keys @ turned * mask
        scores = scores + q * share @ turned * mask
    return between, scores


def spans(size: int) -> Tensor:
    """Masks (L,C,C) of the tokens between each token and the boundary of its pair of squares, by `levels`.

    In the first square of a pair those after it, in the second one those up to it.
    """
    numbers, masks = torch.arange(size), []
    for width in (2**level for level in range(size.bit_length() - 1)):
        square = numbers // width
        odd, up_to = (square % 2 == 1)[:, None], numbers <= numbers[:, None]
        masks.append((square[:, None] == square) & (odd == up_to))
    return torch.stack(masks)


def spans_of(system: Tensor) -> Tensor:
    """`spans` (L,C,C), in the numbers of a system (...,C,C)."""
    size = system.shape[-1]
    y = spans(CHUNK)[:, :size, :size].to(system)
    return y
