"""One layer of a stack: each sublayer in its residual and its norm."""

import torch
from torch import Tensor, nn

from txexport.spec import BlockSpec, Cache, ExpertsSpec, FeedForwardSpec, NormPlacement
from txmodels.attention import Attention, CachedAttention, CrossAttention
from txmodels.experts import Experts
from txmodels.feedforward import FeedForward
from txmodels.norm import Norm


class _Scale(nn.Module):
    """A learned factor for each of a vector's numbers (Touvron et al. 2021, 3.1)."""

    def __init__(self, size: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> (B,S,W)."""
        return x * self.weight


class _Block(nn.Module):
    """The sublayers that every block has, in its norms and its scale."""

    def __init__(self, spec: BlockSpec, attention: nn.Module):
        super().__init__()
        self.post, self.parallel, self.sandwich = (
            spec.placement == kind
            for kind in (NormPlacement.POST, NormPlacement.PARALLEL, NormPlacement.SANDWICH)
        )
        self.cross = spec.cross_attention is not None
        self.direct, self.scaled = self.post or spec.skip_attention_norm, spec.layer_scale
        self.attention = attention
        if not spec.skip_attention_norm:
            self.attention_norm = Norm(spec.norm)
        if self.sandwich:
            self.attention_post_norm = Norm(spec.norm)
        if self.scaled:
            self.attention_scale = _Scale(spec.attention.hidden_size)
        if spec.cross_attention is not None:
            self.cross_attention = CrossAttention(spec.cross_attention)
            self.cross_attention_norm = Norm(spec.norm)
        self.feed_forward = _feed_forward(spec.feed_forward)
        self.feed_forward_norm = Norm(spec.norm)
        if self.sandwich:
            self.feed_forward_post_norm = Norm(spec.norm)
        if self.scaled:
            self.feed_forward_scale = _Scale(spec.attention.hidden_size)

    def attended(self, x: Tensor, mixed: Tensor) -> Tensor:
        """x (B,S,W) and what attention makes of it -> (B,S,W)."""
        if self.sandwich:
            mixed = self.attention_post_norm(mixed)
        if self.scaled:
            mixed = self.attention_scale(mixed)
        attended = x + mixed  # (B, S, W)
        if self.post:
            attended = self.attention_norm(attended)
        return attended

    def fed(self, x: Tensor, attended: Tensor) -> Tensor:
        """The block's input and what its attention sublayers made of it, both (B,S,W) -> y (B,S,W)."""
        source = x if self.parallel else attended
        inner = source if self.post else self.feed_forward_norm(source)
        fed = self.feed_forward(inner)
        if self.sandwich:
            fed = self.feed_forward_post_norm(fed)
        if self.scaled:
            fed = self.feed_forward_scale(fed)
        y = attended + fed  # (B, S, W)
        if self.post:
            y = self.feed_forward_norm(y)
        return y


class EncoderBlock(_Block):
    """Attention over the whole sequence, then feed-forward (Vaswani et al. 2017, 3.1)."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec, Attention(spec.dense))

    def forward(self, x: Tensor, mask: Tensor | None, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        """x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W)."""
        inner = x if self.direct else self.attention_norm(x)
        mixed = self.attention(inner, mask, cos, sin)
        attended = self.attended(x, mixed)  # (B, S, W)
        y = self.fed(x, attended)  # (B, S, W)
        return y


class DecoderBlock(_Block):
    """Attention over a cache, over the encoder where there is one, then feed-forward."""

    def __init__(self, spec: BlockSpec, cache: Cache):
        super().__init__(spec, CachedAttention(spec.dense, cache))

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None,
        cos: Tensor | None,
        sin: Tensor | None,
        cache_lengths: Tensor | None,
        past_k: Tensor,
        past_v: Tensor,
        cross_mask: Tensor | None,
        cross_k: Tensor | None,
        cross_v: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B,S,W), mask (B,1,S,T), past (B,K,P,H) -> y (B,S,W), k and v (B,K,T,H).

        With rotary positions, cos and sin (B,S,R); with an encoder, its mask (B,1,S,E), k and v (B,K,E,H).
        """
        inner = x if self.direct else self.attention_norm(x)
        mixed, k, v = self.attention(inner, mask, cos, sin, cache_lengths, past_k, past_v)
        attended = self.attended(x, mixed)  # (B, S, W)
        if self.cross:
            inner = attended if self.post else self.cross_attention_norm(attended)
            crossed = self.cross_attention(inner, cross_mask, cross_k, cross_v)
            attended = attended + crossed  # (B, S, W)
            if self.post:
                attended = self.cross_attention_norm(attended)
        y = self.fed(x, attended)  # (B, S, W)
        return y, k, v


def _feed_forward(spec: FeedForwardSpec | ExpertsSpec) -> nn.Module:
    return Experts(spec) if isinstance(spec, ExpertsSpec) else FeedForward(spec)
