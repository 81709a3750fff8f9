"""Multi-head latent attention: one cached vector a token, from which every head derives keys and values.

Keys and values are not materialised: the key projection is multiplied with the queries instead, and the value
projection with the weighted sum of vectors (DeepSeek-AI 2024, 2.1.2 and appendix C). So a cache has R + D
numbers a token, R = kv_lora_rank and D = qk_rope_head_dim, and a step reads no more.
"""

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import Cache, LatentAttentionSpec
from txmodels.attention import grown, merge, rotate, scatter, split
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked
from txmodels.scaled_dot_product_attention import masked_softmax


def shared_scores(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """q (B,N,S,H), k (B,1,T,H) -> products (B,N,S,T) of all heads' queries with the same keys."""
    return q @ k.mT * scale


def shared_sum(weights: Tensor, v: Tensor) -> Tensor:
    """weights (B,N,S,T), v (B,1,T,H) -> (B,N,S,H)."""
    return weights @ v


def apart(x: Tensor) -> Tensor:
    """x (B,N,S,D) -> (B,N,S,D): interleaved pairs de-interleaved, the first numbers, then the second ones."""
    return x.unflatten(3, (-1, 2)).mT.flatten(3)


class LatentAttention(nn.Module):
    """Self-attention of a sequence; returns its weights if `weighted`."""

    def __init__(self, spec: LatentAttentionSpec, weighted: bool = False):
        super().__init__()
        self.spec, self.weighted = spec, weighted
        heads, rank = spec.num_heads, spec.kv_lora_rank
        if spec.q_lora_rank is not None:
            self.q_down = Linear(spec.hidden_size, spec.q_lora_rank, spec.bias)
            self.q_norm = Norm(spec.q_norm)
        self.q = Linear(spec.q_lora_rank or spec.hidden_size, heads * spec.head_dim, bias=False)
        self.kv_down = Linear(spec.hidden_size, rank + spec.qk_rope_head_dim, spec.bias)
        self.kv_norm = Norm(spec.norm)
        self.k_up = Linear(rank, heads * spec.qk_nope_head_dim, bias=False)
        self.v_up = Linear(rank, heads * spec.v_head_dim, bias=False)
        self.o = Linear(heads * spec.v_head_dim, spec.hidden_size, spec.bias)

    def forward(
        self, x: Tensor, mask: Tensor, cos: Tensor | None, sin: Tensor | None, growth: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,S), cos and sin (B,S,D/2) -> y (B,S,W), and weights (B,N,S,S).

        Queries are multiplied by growth (B,S,1). Without RoPE, cos and sin are None.
        """
        latents, turned = self._compressed(x, cos, sin)  # (B, 1, S, R), (B, 1, S, D)
        queries = self._queries(x, cos, sin, growth)
        y, weights = self._mixed(*queries, latents, turned, mask)  # (B, S, W)
        return (y, weights) if self.weighted else (y,)

    def _queries(
        self, x: Tensor, cos: Tensor | None, sin: Tensor | None, growth: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """x (B,S,W), cos and sin (B,S,D/2) -> queries of latents (B,N,S,R), and of rotated keys (B,N,S,D)."""
        spec = self.spec
        if spec.q_lora_rank is not None:
            x = self.q_norm(self.q_down(x))  # (B, S, q_lora_rank)
        q = grown(split(self.q(x), spec.num_heads), growth)  # (B, N, S, H)
        content, turning = q.split([spec.qk_nope_head_dim, spec.qk_rope_head_dim], dim=3)
        keys = self.k_up.weight.unflatten(0, (spec.num_heads, -1))  # (N, qk_nope_head_dim, R)
        return content @ keys, self._rotated(turning, cos, sin)

    def _compressed(self, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B,S,W), cos and sin (B,S,D/2) -> the cached numbers: latents (B,1,S,R), rotated (B,1,S,D)."""
        sizes = [self.spec.kv_lora_rank, self.spec.qk_rope_head_dim]
        latents, turning = self.kv_down(x).split(sizes, dim=2)  # (B, S, R), (B, S, D)
        return self.kv_norm(latents)[:, None], self._rotated(turning[:, None], cos, sin)

    def _rotated(self, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        """x (B,N,S,D), cos and sin (B,S,D/2) -> x rotated pair by pair, or as it is without RoPE."""
        if self.spec.rotary is None:
            return x
        assert cos is not None
        assert sin is not None
        return rotate(apart(x) if self.spec.apart else x, cos, sin, self.spec.rotary.interleaved)

    def _mixed(
        self, q: Tensor, q_turned: Tensor, latents: Tensor, turned: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """q (B,N,S,R) and q_turned (B,N,S,D), latents (B,1,T,R) and turned (B,1,T,D), mask (B,1,S,T).

        Returns y (B,S,W) and weights (B,N,S,T).
        """
        scale, heads = self.spec.scale, self.spec.num_heads
        s = shared_scores(q, latents, scale) + shared_scores(q_turned, turned, scale)  # (B, N, S, T)
        weights = masked_softmax(s, mask)
        values = self.v_up.weight.unflatten(0, (heads, -1)).mT  # (N, R, v_head_dim)
        mixed = shared_sum(weights, latents) @ values  # (B, N, S, v_head_dim)
        y: Tensor = self.o(merge(mixed))  # (B, S, W)
        return y, weights


class CachedLatentAttention(LatentAttention):
    """Attention of new tokens over the past and themselves."""

    def __init__(self, spec: LatentAttentionSpec, cache: Cache, weighted: bool = False):
        super().__init__(spec, weighted)
        self.static = cache == Cache.STATIC

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        mask: Tensor,
        cos: Tensor | None,
        sin: Tensor | None,
        cache_lengths: Tensor | None,
        past_k: Tensor,
        past_v: Tensor,
        **more: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,T), cos and sin (B,S,D/2), past_k (B,1,P,R), past_v (B,1,P,D).

        Returns y (B,S,W), k (B,1,T,R), v (B,1,T,D), and weights (B,N,S,T). A static cache has P = T = C and
        takes cache_lengths (B), the filled slots of each row. With logits_indices (B,L), only these tokens
        are queries: y is (B,L,W), the mask (B,1,L,T). Queries are multiplied by `growth` (B,S,1).
        """
        logits_indices = more.get(names.LOGITS_INDICES)
        new_k, new_v = self._compressed(x, cos, sin)  # (B, 1, S, R), (B, 1, S, D)
        if self.static:
            assert cache_lengths is not None
            k = scatter(past_k, new_k, cache_lengths)  # (B, 1, C, R)
            v = scatter(past_v, new_v, cache_lengths)
        else:
            k = torch.cat([past_k, new_k], dim=2)  # (B, 1, T, R)
            v = torch.cat([past_v, new_v], dim=2)
        turns = asked(cos, logits_indices), asked(sin, logits_indices)  # (B, L, D/2)
        growth = asked(more.get("growth"), logits_indices)  # (B, L, 1)
        queries = self._queries(asked(x, logits_indices), *turns, growth)
        y, weights = self._mixed(*queries, k, v, mask)  # (B, S, W)
        return (y, k, v, weights) if self.weighted else (y, k, v)
