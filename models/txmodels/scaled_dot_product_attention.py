"""Scaled dot-product attention: scores, their masks, soft cap and sinks, softmax, weighted sum."""

import torch
import torch.nn.functional as F
from torch import Tensor


def scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """q (B,N,S,H), k (B,K,T,H) -> products (B,N,S,T) of queries with the keys that N/K of them share."""
    return q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * scale


def capped(s: Tensor, softcap: float) -> Tensor:
    """Scores s (B,N,S,T) -> softcap * tanh(s / softcap) (Bello et al. 2016, 3.2)."""
    return softcap * torch.tanh(s / softcap)


def masked_softmax(s: Tensor, mask: Tensor) -> Tensor:
    """Scores s (B,N,S,T), mask (B,1,S,T) -> weights (B,N,S,T); a query that sees nothing has none."""
    return s.masked_fill(~mask, float("-inf")).softmax(dim=-1).nan_to_num(0.0)


def sunk_softmax(s: Tensor, mask: Tensor, sinks: Tensor) -> Tensor:
    """As `masked_softmax`, with one more score of each head, sinks (N), then left out (OpenAI 2025)."""
    last = sinks[:, None, None].expand(*s.shape[:3], 1)  # (B, N, S, 1)
    every = torch.cat([s.masked_fill(~mask, float("-inf")), last], dim=-1)  # (B, N, S, T + 1)
    return every.softmax(dim=-1)[..., :-1]


def weighted_sum(weights: Tensor, v: Tensor) -> Tensor:
    """weights (B,N,S,T), v (B,K,T,H) -> (B,N,S,H)."""
    return weights @ v.repeat_interleave(weights.shape[1] // v.shape[1], dim=1)


def scaled_dot_product_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    scale: float | None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """q (B,N,S,H), k and v (B,K,T,H), mask (B,1,S,T) -> (B,N,S,H); a query that sees nothing gets 0."""
    if softcap is not None or sinks is not None:
        return weighted_sum(attention_weights(q, k, mask, scale, softcap, sinks), v)
    return F.scaled_dot_product_attention(q, k, v, mask, scale=scale, enable_gqa=q.shape[1] != k.shape[1])


def attention_weights(
    q: Tensor,
    k: Tensor,
    mask: Tensor | None,
    scale: float | None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
) -> Tensor:
    """q (B,N,S,H), k (B,K,T,H), mask (B,1,S,T) or a bias (B,N,S,T) -> weights (B,N,S,T)."""
    s = scores(q, k, scale or q.shape[-1] ** -0.5)
    if softcap is not None:
        s = capped(s, softcap)
    if sinks is not None:
        assert mask is not None
        return sunk_softmax(s, mask, sinks)
    if mask is None:
        return s.softmax(dim=-1)
    return masked_softmax(s, mask) if mask.dtype == torch.bool else (s + mask).softmax(dim=-1)
