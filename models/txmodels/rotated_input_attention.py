"""Multi-head attention whose queries and keys are projections of rotated vectors."""

from torch import Tensor, nn

from txexport.spec import RotatedInputAttentionSpec
from txmodels.attention import merge, rotate, split
from txmodels.linear import Linear
from txmodels.scaled_dot_product_attention import (
    attention_weights,
    scaled_dot_product_attention,
    weighted_sum,
)


class RotatedInputAttention(nn.Module):
    """Attention of vectors that are rotated by their positions before the projections.

    Returns its weights if `weighted`.
    """

    def __init__(self, spec: RotatedInputAttentionSpec, weighted: bool = False):
        super().__init__()
        self.spec, self.weighted = spec, weighted
        self.q = Linear(spec.hidden_size, spec.hidden_size)
        self.k = Linear(spec.hidden_size, spec.hidden_size)
        self.v = Linear(spec.hidden_size, spec.hidden_size)
        self.o = Linear(spec.hidden_size, spec.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W), and weights (B,N,S,S)."""
        heads, scale = self.spec.num_heads, self.spec.scale
        rotated = merge(rotate(split(x, heads), cos, sin, interleaved=False))  # (B, S, W)
        q = split(self.q(rotated), heads)  # (B, N, S, H)
        k = split(self.k(rotated), heads)
        v = split(self.v(x), heads)
        if not self.weighted:
            y: Tensor = self.o(merge(scaled_dot_product_attention(q, k, v, mask, scale)))  # (B, S, W)
            return (y,)
        weights = attention_weights(q, k, mask, scale)
        y = self.o(merge(weighted_sum(weights, v)))
        return y, weights
