"""Multi-head attention: over a whole sequence, over a cache, and over an encoder's output."""

import torch
from torch import Tensor, nn

from txexport.spec import AttentionSpec, Cache
from txmodels.adapted_linear import adapted_linear
from txmodels.grouped_linear import grouped_linear
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked
from txmodels.relative_gate import RelativeGate
from txmodels.scaled_dot_product_attention import (
    attention_weights,
    scaled_dot_product_attention,
    weighted_sum,
)


def split(x: Tensor, heads: int) -> Tensor:
    """x (B,S,N*H) -> (B,N,S,H)."""
    return x.unflatten(2, (heads, -1)).transpose(1, 2)


def merge(x: Tensor) -> Tensor:
    """x (B,N,S,H) -> (B,S,N*H)."""
    return x.transpose(1, 2).flatten(2)


def rotate(x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool) -> Tensor:
    """x (B,N,S,H), cos and sin (B,S,R) -> x with its first 2R numbers rotated pair by pair."""
    cos, sin, size = cos[:, None], sin[:, None], 2 * cos.shape[-1]
    pairs, rest = x[..., :size], x[..., size:]
    if interleaved:
        a, b = pairs[..., ::2], pairs[..., 1::2]
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)
    else:
        a, b = pairs.chunk(2, dim=-1)
        turned = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
    return torch.cat([turned, rest], dim=-1)


def grown(q: Tensor, growth: Tensor | None) -> Tensor:
    """q (B,N,S,H) times growth (B,S,1), if there is any."""
    return q if growth is None else q * growth[:, None]


def scatter(past: Tensor, new: Tensor, cache_lengths: Tensor) -> Tensor:
    """past (B,K,C,H) with new (B,K,S,H) written to row b from slot cache_lengths[b] on."""
    slots = cache_lengths[:, None] + torch.arange(new.shape[2], device=new.device)  # (B, S)
    return past.scatter(2, slots[:, None, :, None].expand_as(new), new)


def _seen(q: Tensor, k: Tensor, filled: Tensor) -> Tensor:
    """mask (B,1,S,C): query s of row b attends to the first filled[b] - S + s + 1 slots of a static cache."""
    slots = torch.arange(k.shape[2], device=k.device)  # (C)
    last = filled[:, None] + torch.arange(-q.shape[2], 0, device=k.device)  # (B, S)
    return (slots <= last[:, :, None])[:, None]


class Attention(nn.Module):
    """Self-attention of a sequence (Vaswani et al. 2017, 3.2); returns its weights if `weighted`."""

    def __init__(self, spec: AttentionSpec, weighted: bool = False):
        super().__init__()
        self.weighted = weighted
        self.num_heads, self.num_kv_heads, self.scale = spec.num_heads, spec.num_kv_heads, spec.scale
        self.softcap = spec.softcap
        self.rotary, self.joint_norm = spec.rotary is not None, spec.joint_norm
        self.rotated_norm, self.clip = spec.rotated_norm, spec.clip
        self.normed = spec.head_norm is not None and not spec.joint_norm and not spec.rotated_norm
        self.interleaved = spec.rotary is not None and spec.rotary.interleaved
        queries, keys = spec.num_heads * spec.head_dim, spec.num_kv_heads * spec.head_dim
        inputs, rank = spec.input_size or spec.hidden_size, spec.adapter_rank
        self.q = adapted_linear(inputs, queries, spec.bias, spec.q_groups, rank)
        self.k = adapted_linear(inputs, keys, spec.bias, spec.k_groups, rank)
        self.keys_as_values, self.value_norm = spec.keys_as_values, spec.value_norm
        if not spec.keys_as_values:
            self.v = adapted_linear(inputs, keys, spec.bias, spec.v_groups, rank)
        self.o = grouped_linear(queries, spec.hidden_size, spec.output_bias, spec.o_groups)
        if spec.q_norm is not None and spec.k_norm is not None:
            self.q_norm = Norm(spec.q_norm)
            self.k_norm = Norm(spec.k_norm)
        if spec.value_norm and spec.head_norm is not None:
            self.v_norm = Norm(spec.head_norm)
        self.sinks = nn.Parameter(torch.zeros(spec.num_heads)) if spec.sinks else None
        self.output_gate = None
        if spec.gated_output:
            size = 1 if spec.head_gates else spec.head_dim
            self.output_gate = Linear(spec.hidden_size, spec.num_heads * size, spec.bias)
        if spec.gated:
            self.gate = RelativeGate(spec)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        cos: Tensor | None,
        sin: Tensor | None,
        **more: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W), and weights (B,N,S,S).

        A gated attention reads the bias `relative` (1,N,S,S). Queries are multiplied by `growth` (B,S,1).
        """
        if more.get("relative") is not None:
            mask = self.gate(x, more["relative"], mask)  # (B, N, S, S)
        q = grown(self.heads_of("q", x, cos, sin), more.get("growth"))  # (B, N, S, H)
        k, v = self._keys_and_values(x, cos, sin)  # (B, K, S, H)
        heads, *weights = self._mixed(q, k, v, mask)  # (B, N, S, H)
        y: Tensor = self.o(self._gated_output(x, merge(heads)))  # (B, S, W)
        return y, *weights

    def _mixed(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, filled: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """q (B,N,S,H), k and v (B,K,T,H), mask (B,1,S,T) -> (B,N,S,H), and weights (B,N,S,T).

        If `filled` (B) tells the slots of each row, it makes the mask.
        """
        mask = mask if filled is None else _seen(q, k, filled)  # (B, 1, S, T)
        if not self.weighted:
            return (scaled_dot_product_attention(q, k, v, mask, self.scale, self.softcap, self.sinks),)
        weights = attention_weights(q, k, mask, self.scale, self.softcap, self.sinks)
        return weighted_sum(weights, v), weights

    def _gated_output(self, x: Tensor, mixed: Tensor) -> Tensor:
        """x (B,S,W) and what its heads give (B,S,N*H) -> that times the gate, if there is one."""
        if self.output_gate is None:
            return mixed
        gates = self.output_gate(x).sigmoid()  # (B, S, N*H), or (B, S, N)
        return (mixed.unflatten(2, (gates.shape[2], -1)) * gates[..., None]).flatten(2)

    def heads_of(self, name: str, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        """x (B,S,W), cos and sin (B,S,R) -> "q", queries (B,N,S,H), or "k", keys (B,K,S,H), rotated."""
        return self._normed_and_rotated(name, self._projected(name, x), cos, sin)

    def _keys_and_values(self, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (B,S,W), cos and sin (B,S,R) -> keys, as they meet queries, and values, both (B,K,S,H)."""
        projected = self._projected("k", x)  # (B, K, S, H)
        k = self._normed_and_rotated("k", projected, cos, sin)
        return k, self._values(x, projected)

    def _projected(self, name: str, x: Tensor) -> Tensor:
        """x (B,S,W) -> queries (B,N,S,H) or keys (B,K,S,H) as projected."""
        norm = getattr(self, f"{name}_norm", None)
        y = getattr(self, name)(x)  # (B, S, N*H) or (B, S, K*H)
        if norm is not None and self.joint_norm:
            y = norm(y)
        return split(y, {"q": self.num_heads, "k": self.num_kv_heads}[name])

    def _normed_and_rotated(self, name: str, y: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        """Projected queries (B,N,S,H) or keys (B,K,S,H), cos and sin (B,S,R) -> the same as they meet."""
        norm = getattr(self, f"{name}_norm", None)
        if norm is not None and self.normed:
            y = norm(y)
        y = self._rotated(self._clipped(y), cos, sin)
        return norm(y) if norm is not None and self.rotated_norm else y

    def _values(self, x: Tensor, keys: Tensor) -> Tensor:
        """x (B,S,W), and keys as projected (B,K,S,H) -> values (B,K,S,H)."""
        y = self._clipped(keys if self.keys_as_values else split(self.v(x), self.num_kv_heads))
        return self.v_norm(y) if self.value_norm else y

    def _clipped(self, y: Tensor) -> Tensor:
        """y, clipped to the spec's bounds."""
        return y if self.clip is None else y.clamp(-self.clip, self.clip)

    def _rotated(self, x: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        """x (B,N,S,H), cos and sin (B,S,R) -> x with its first 2R numbers rotated pair by pair."""
        if not self.rotary:
            return x
        assert cos is not None
        assert sin is not None
        return rotate(x, cos, sin, self.interleaved)


class CachedAttention(Attention):
    """Attention of new tokens over the past and themselves."""

    def __init__(self, spec: AttentionSpec, cache: Cache, weighted: bool = False):
        super().__init__(spec, weighted)
        self.static = cache == Cache.STATIC

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        mask: Tensor | None,
        cos: Tensor | None,
        sin: Tensor | None,
        cache_lengths: Tensor | None,
        past_k: Tensor,
        past_v: Tensor,
        logits_indices: Tensor | None = None,
        filled: Tensor | None = None,
        single: Tensor | None = None,
        **more: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,T), cos and sin (B,S,R), past (B,K,P,H) -> y (B,S,W), k and v (B,K,T,H).

        If `weighted`, also weights (B,N,S,T). A static cache has P = T = C and takes cache_lengths (B), the
        filled slots of each row. It takes a mask only if `weighted`, or if the spec is not `maskless_static`;
        otherwise `filled` (B) are the slots filled after the new tokens. With logits_indices (B,L), only
        these tokens are queries: y is (B,L,W), and the mask (B,1,L,T) is required. Queries are multiplied by
        `growth` (B,S,1). `single` (1) has no effect here.
        """
        turns = asked(cos, logits_indices), asked(sin, logits_indices)  # (B, L, R)
        q = self.heads_of("q", asked(x, logits_indices), *turns)  # (B, N, L, H)
        q = grown(q, asked(more.get("growth"), logits_indices))
        new_k, new_v = self._keys_and_values(x, cos, sin)  # (B, K, S, H)
        if self.static:
            assert cache_lengths is not None
            k = scatter(past_k, new_k, cache_lengths)  # (B, K, C, H)
            v = scatter(past_v, new_v, cache_lengths)
        else:
            k = torch.cat([past_k, new_k], dim=2)  # (B, K, T, H)
            v = torch.cat([past_v, new_v], dim=2)
        heads, *weights = self._mixed(q, k, v, mask, filled)  # (B, N, S, H)
        mixed = self._gated_output(asked(x, logits_indices), merge(heads))  # (B, L, N*H)
        y: Tensor = self.o(mixed)  # (B, L, W)
        return y, k, v, *weights


class CrossKeyValue(nn.Module):
    """Keys and values of an encoder's output, computed once for all steps (Vaswani et al. 2017, 3.2.3)."""

    def __init__(self, spec: AttentionSpec):
        super().__init__()
        self.num_kv_heads = spec.num_kv_heads
        self.k = Linear(spec.key_value_size, spec.num_kv_heads * spec.head_dim, spec.bias)
        self.v = Linear(spec.key_value_size, spec.num_kv_heads * spec.head_dim, spec.bias)
        self.k_norm = nn.Identity() if spec.k_norm is None else Norm(spec.k_norm)

    def forward(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """encoded (B,E,W) -> k, normalised if the spec has a norm of heads, and v (B,K,E,H)."""
        k = self.k_norm(split(self.k(encoded), self.num_kv_heads))  # (B, K, E, H)
        v = split(self.v(encoded), self.num_kv_heads)
        return k, v


class CrossAttention(nn.Module):
    """Attention of a decoder's tokens over an encoder's keys and values (Vaswani et al. 2017, 3.2.3)."""

    def __init__(self, spec: AttentionSpec, weighted: bool = False):
        super().__init__()
        self.num_heads, self.scale, self.weighted = spec.num_heads, spec.scale, weighted
        self.softcap = spec.softcap
        self.shared = spec.unmasked and not weighted
        self.q = Linear(spec.hidden_size, spec.num_heads * spec.head_dim, spec.bias)
        self.o = Linear(spec.num_heads * spec.head_dim, spec.hidden_size, spec.output_bias)
        self.q_norm = nn.Identity() if spec.q_norm is None else Norm(spec.q_norm)

    def forward(self, x: Tensor, mask: Tensor | None, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,E), k and v (B,K,E,H) -> y (B,S,W), and weights (B,N,S,E).

        Without a mask and weights, x may have a multiple of B rows: adjacent rows share keys and values.
        """
        if self.shared:
            together = self.q(x).reshape(k.shape[0], -1, self.q.weight.shape[0])  # (B, R/B*S, N*H)
            mixed = scaled_dot_product_attention(split(together, self.num_heads), k, v, None, self.scale)
            y = self.o(merge(mixed).reshape(*x.shape[:2], -1))  # (R, S, W)
            return (y,)
        q = self.q_norm(split(self.q(x), self.num_heads))  # (B, N, S, H)
        if not self.weighted:
            mixed = scaled_dot_product_attention(q, k, v, mask, self.scale, self.softcap)
            y = self.o(merge(mixed))  # (B, S, W)
            return (y,)
        weights = attention_weights(q, k, mask, self.scale, self.softcap)
        y = self.o(merge(weighted_sum(weights, v)))
        return y, weights
