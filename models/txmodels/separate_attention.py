"""Attention whose queries, keys and values are given apart."""

import torch.nn.functional as F
from torch import Tensor, nn

from txmodels.attention import merge, split
from txmodels.linear import Linear


class SeparateAttention(nn.Module):
    """Attention with `heads` heads, `inner` numbers within (Vaswani et al. 2017, 3.2)."""

    def __init__(self, width: int, heads: int, inner: int):
        super().__init__()
        self.num_heads = heads
        self.q = Linear(width, inner)
        self.k = Linear(width, inner)
        self.v = Linear(width, inner)
        self.o = Linear(inner, width)

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None = None) -> Tensor:
        """queries (B,S,W), keys and values (B,T,W), mask (B,1,S,T) or None -> y (B,S,W)."""
        pairs = (self.q, queries), (self.k, keys), (self.v, values)
        q, k, v = (split(part(x), self.num_heads) for part, x in pairs)
        y: Tensor = self.o(merge(F.scaled_dot_product_attention(q, k, v, mask)))
        return y
