"""One layer of a stack: each sublayer in its residual and its norm."""

from torch import Tensor, nn

from txexport.spec import BlockSpec, Cache, NormPlacement
from txmodels.attention import Attention, CachedAttention, CrossAttention
from txmodels.feedforward import FeedForward
from txmodels.norm import Norm


class EncoderBlock(nn.Module):
    """Attention over the whole sequence, then feed-forward (Vaswani et al. 2017, 3.1)."""

    def __init__(self, spec: BlockSpec):
        super().__init__()
        self.post, self.parallel = (
            spec.placement == kind for kind in (NormPlacement.POST, NormPlacement.PARALLEL)
        )
        self.attention = Attention(spec.attention)
        self.attention_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(spec.feed_forward)
        self.feed_forward_norm = Norm(spec.norm)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor | None, sin: Tensor | None) -> Tensor:
        """x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W)."""
        inner = x if self.post else self.attention_norm(x)
        mixed = self.attention(inner, mask, cos, sin)
        attended = x + mixed  # (B, S, W)
        if self.post:
            attended = self.attention_norm(attended)
        source = x if self.parallel else attended
        inner = source if self.post else self.feed_forward_norm(source)
        fed = self.feed_forward(inner)
        y = attended + fed  # (B, S, W)
        if self.post:
            y = self.feed_forward_norm(y)
        return y


class DecoderBlock(nn.Module):
    """Attention over a cache, over the encoder where there is one, then feed-forward."""

    def __init__(self, spec: BlockSpec, cache: Cache):
        super().__init__()
        self.post, self.parallel = (
            spec.placement == kind for kind in (NormPlacement.POST, NormPlacement.PARALLEL)
        )
        self.cross = spec.cross_attention is not None
        self.attention = CachedAttention(spec.attention, cache)
        self.attention_norm = Norm(spec.norm)
        if spec.cross_attention is not None:
            self.cross_attention = CrossAttention(spec.cross_attention)
            self.cross_attention_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(spec.feed_forward)
        self.feed_forward_norm = Norm(spec.norm)

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
        inner = x if self.post else self.attention_norm(x)
        mixed, k, v = self.attention(inner, mask, cos, sin, cache_lengths, past_k, past_v)
        attended = x + mixed  # (B, S, W)
        if self.post:
            attended = self.attention_norm(attended)
        if self.cross:
            inner = attended if self.post else self.cross_attention_norm(attended)
            crossed = self.cross_attention(inner, cross_mask, cross_k, cross_v)
            attended = attended + crossed  # (B, S, W)
            if self.post:
                attended = self.cross_attention_norm(attended)
        source = x if self.parallel else attended
        inner = source if self.post else self.feed_forward_norm(source)
        fed = self.feed_forward(inner)
        y = attended + fed  # (B, S, W)
        if self.post:
            y = self.feed_forward_norm(y)
        return y, k, v
