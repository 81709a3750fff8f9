"""Multi-head attention whose projections are products of two narrow matrices."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import Factored, LowRankAttentionSpec
from txexport.spec.attention import Reach
from txmodels.attention import merge, split
from txmodels.linear import Linear
from txmodels.mask import causal_mask, padding_mask


class LowRankLinear(Linear):
    """Projection through R numbers: x (..., in) -> y (..., out) (Winata et al. 2020, 2).

    Its dense matrix (out,in) is weight (out,R) times inner.weight (R,in).
    """

    def __init__(self, inputs: int, outputs: int, rank: int, bias: bool):
        super().__init__(rank, outputs, bias)
        self.inner = Linear(inputs, rank, False)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., in) -> y (..., out)."""
        y = super().forward(self.inner(x))
        return y


class LowRankAttention(nn.Module):
    """Attention of a sequence over itself, some projections of low rank (Winata et al. 2020, 2)."""

    def __init__(self, spec: LowRankAttentionSpec):
        super().__init__()
        self.num_heads, self.causal = spec.num_heads, spec.causal
        inner = spec.num_heads * spec.head_dim
        inputs, output = spec.factored != Factored.VALUE, spec.factored == Factored.ALL

        def linear(factored: bool, ends: tuple[int, int]) -> Linear:
            return LowRankLinear(*ends, spec.rank, spec.bias) if factored else Linear(*ends, spec.bias)

        self.q = linear(inputs, (spec.hidden_size, inner))
        self.k = linear(inputs, (spec.hidden_size, inner))
        self.v = linear(True, (spec.hidden_size, inner))
        self.o = linear(output, (inner, spec.hidden_size))

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W)."""
        q = split(self.q(x), self.num_heads)  # (B, N, S, H)
        k = split(self.k(x), self.num_heads)
        v = split(self.v(x), self.num_heads)
        if self.causal:
            mask = causal_mask(Reach(None), attention_mask, attention_mask, attention_mask)  # (B, 1, S, S)
        else:
            mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S, S)
        mixed = merge(F.scaled_dot_product_attention(q, k, v, mask))  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y
