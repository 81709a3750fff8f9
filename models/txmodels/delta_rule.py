"""The gated delta rule over chunks of tokens: matrices that tokens decay, correct and read."""

import torch
from torch import Tensor

from txmodels.chunks import chunked, decayed, decays, transposed

CHUNK = 32  # tokens


def delta_rule(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Each token decays the state, replaces a part of what its key reads there, and reads the result.

    That is S = exp(decay) S + beta k (v - exp(decay) kᵀS)ᵀ and y = qᵀS (Yang et al. 2024, 3.1), by chunks of
    tokens (3.3): within one, the corrections solve a triangular system. q and k (B,S,V,D), v (B,S,V,E),
    decay and beta (B,S,V,1), state (B,V,D,E) -> y (B,S,V,E), state.

    One token needs no chunks.
    """
    step = one_token if q.shape[1] == 1 else by_chunks
    return step(q, k, v, decay, beta, state)


def one_token(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """As `delta_rule`, for S=1; decay (B,1,V,1), or (B,1,V,D) of each channel of a key."""
    q, k, v, decay, beta = (x.transpose(1, 2) for x in (q, k, v, decay, beta))  # (B, V, 1, ...)
    before = state * decayed(decay).mT  # (B, V, D, E)
    new = beta * (v - k @ before)  # (B, V, 1, E)
    after = before + k.mT @ new  # (B, V, D, E)
    return (q @ after).transpose(1, 2), after


def by_chunks(
    q: Tensor, k: Tensor, v: Tensor, decay: Tensor, beta: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """As `delta_rule`, for any S."""
    length = q.shape[1]
    size = min(length, CHUNK)
    q, k, v, decay, beta = (chunked(x, size) for x in (q, k, v, decay, beta))  # (N, B, V, C, ...)
    sums = decay.cumsum(3)  # (N, B, V, C, 1)
    later = decays(transposed(decay))  # (N, B, V, C, C)
    between = transposed(later)
    replaced = beta * k  # (N, B, V, C, D)
    turned = transposed(k)  # (N, B, V, D, C)
    inverse = inverted(replaced @ turned * between)  # (N, B, V, C, C)
    values = inverse @ (beta * v)  # (N, B, V, C, E)
    growth = decayed(sums)
    weights = inverse @ (replaced * growth)  # (N, B, V, C, D)
    scores = q @ turned * between  # (N, B, V, C, C)
    last = sums[:, :, :, -1:]  # (N, B, V, 1, 1)
    left = later[..., -1:]  # (N, B, V, C, 1)
    read, written = q * growth, k * left
    outputs, state = scanned(state, read, written, values, weights, scores, decayed(last))
    return joined(outputs)[:, :length], state


def joined(x: Tensor) -> Tensor:
    """x (N,B,V,C,D) -> (B,N*C,V,D)."""
    y = x.permute(1, 0, 3, 2, 4).flatten(1, 2)
    return y


def inverted(system: Tensor) -> Tensor:
    """The inverse of 1 plus what is below the diagonal of `system` (...,C,C).

    Inverses of squares on the diagonal become those of squares of twice the size.
    """
    inverse, masks = squares(system)
    for number, mask in enumerate(masks):
        below = system * mask
        change = below if number == 0 else inverse @ below @ inverse
        inverse = inverse - change  # (..., C, C)
    return inverse


def squares(system: Tensor) -> tuple[Tensor, Tensor]:
    """The identity (C,C) and the masks of `levels` (L,C,C), in the numbers of a system (...,C,C)."""
    size = system.shape[-1]
    one = torch.eye(size, dtype=system.dtype, device=system.device)  # (C, C)
    masks = levels(CHUNK)[:, :size, :size].to(system)  # (L, C, C)
    return one, masks


def levels(size: int) -> Tensor:
    """Masks (L,C,C) of the squares below the diagonal between pairs of squares of 1, 2, 4 ... numbers."""
    numbers, masks = torch.arange(size), []
    for width in (2**level for level in range(size.bit_length() - 1)):
        squares = numbers // width
        odd = (squares % 2 == 1)[:, None]
        masks.append(odd & (squares[:, None] == squares + 1))
    return torch.stack(masks)


def scanned(
    state: Tensor,
    read: Tensor,
    written: Tensor,
    values: Tensor,
    weights: Tensor,
    scores: Tensor,
    shares: Tensor,
) -> tuple[Tensor, Tensor]:
    """Chunks (N,B,V,C,...) one by one over the state (B,V,D,E) -> outputs (N,B,V,C,E), state."""
    outputs = []
    for q, k, u, w, a, d in zip(read, written, values, weights, scores, shares, strict=True):
        new = u - w @ state  # (B, V, C, E)
        outputs.append(q @ state + a @ new)  # (B, V, C, E)
        state = state * d + k.mT @ new  # (B, V, D, E)
    return torch.stack(outputs), state
