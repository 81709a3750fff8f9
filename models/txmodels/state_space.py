"""State spaces over chunks of tokens: matrices that tokens decay, add to and read."""

import torch
from torch import Tensor

from txmodels.chunks import MOST, chunked, decayed, decays, transposed


def state_space(
    x: Tensor, b: Tensor, c: Tensor, steps: Tensor, decay: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Each token decays the state of a head, adds its input times the step to it, and reads the result.

    That is S = exp(decay) S + step x bᵀ and y = S c (Dao and Gu 2024, 2), by chunks of tokens (6). Within
    one, a masked product adds what each token has written to later ones. Heads H in G groups that share b and
    c: x (B,S,H,P), b and c (B,S,G,D), steps and decay (B,S,H,1), state (B,H,P,D) -> y (B,S,H,P), state.

    One token needs no chunks.
    """
    step = one_token if x.shape[1] == 1 else by_chunks
    return step(x, b, c, steps, decay, state)


def one_token(
    x: Tensor, b: Tensor, c: Tensor, steps: Tensor, decay: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """As `state_space`, for S=1."""
    groups, rows = b.shape[2], (len(x), b.shape[2], -1)
    rest = decayed(decay).reshape(len(x), -1, 1, 1)  # (B, H, 1, 1)
    written = (x * steps).reshape(*rows, 1)  # (B, G, H/G*P, 1)
    added = written @ b.reshape(len(b), groups, 1, -1)  # (B, G, H/G*P, D)
    after = state * rest + added.reshape(state.shape)  # (B, H, P, D)
    y = after.reshape(*rows, state.shape[3]) @ c.reshape(*rows, 1)  # (B, G, H/G*P, 1)
    return y.reshape(x.shape), after


def by_chunks(
    x: Tensor, b: Tensor, c: Tensor, steps: Tensor, decay: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """As `state_space`, for any S."""
    length, heads, groups = *x.shape[1:3], b.shape[2]
    size = min(length, MOST)
    b = chunked(b, size)  # (N, B, G, C, D)
    x, c, steps, decay = (columns(one, size) for one in (x, c, steps, decay))  # (N, B, ..., C)
    sums = decay.cumsum(4)  # (N, B, H, 1, C)
    between = decays(decay)  # (N, B, H, C, C)
    scores = (b @ c).repeat_interleave(heads // groups, dim=2) * between  # (N, B, H, C, C)
    written = x * steps  # (N, B, H, P, C)
    near = written @ scores  # (N, B, H, P, C)
    last = sums[..., -1:]  # (N, B, H, 1, 1)
    left = (written * transposed(between[..., -1:])).reshape(
        *x.shape[:2], groups, -1, size
    )  # (N, B, G, H/G*P, C)
    rest = decayed(last).expand(*x.shape[:4], 1).reshape(*x.shape[:2], groups, -1, 1)  # (N, B, G, H/G*P, 1)
    before = state.reshape(len(state), groups, -1, state.shape[3])  # (B, G, H/G*P, D)
    after, far = scanned(before, left, b, c, rest)
    y = near + far.reshape(x.shape) * decayed(sums)  # (N, B, H, P, C)
    return rows(y)[:, :length], after.reshape(state.shape)


def columns(x: Tensor, size: int) -> Tensor:
    """x (B,S,V,D) -> (N,B,V,D,C), chunks of `size` tokens; zeros fill up the last one."""
    y = transposed(chunked(x, size))
    return y


def rows(x: Tensor) -> Tensor:
    """x (N,B,V,D,C) -> (B,N*C,V,D)."""
    y = x.permute(1, 0, 4, 2, 3).flatten(1, 2)
    return y


def scanned(state: Tensor, left: Tensor, b: Tensor, c: Tensor, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Chunks (N,B,G,...) one by one over the state (B,G,H/G*P,D) -> state, outputs (N,B,G,H/G*P,C)."""
    outputs = []
    for x, writes, reads, k in zip(left, b, c, rest, strict=True):
        outputs.append(state @ reads)  # (B, G, H/G*P, C)
        state = state * k + x @ writes  # (B, G, H/G*P, D)
    return state, torch.stack(outputs)
