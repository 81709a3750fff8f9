"""Multi-head attention within blocks of a sequence and their neighbours."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import LocalAttentionSpec
from txmodels.attention import merge, split
from txmodels.blocks import blocks, distances, joined, preceded, rows, surrounded
from txmodels.linear import Linear


class LocalAttention(nn.Module):
    """Attention over blocks: causal (Parmar et al. 2018, 3.3), or both ways (Zaheer et al. 2020, D)."""

    def __init__(self, spec: LocalAttentionSpec):
        super().__init__()
        self.num_heads, self.size = spec.num_heads, spec.block_size
        self.around = preceded if spec.causal else surrounded
        self.end = spec.block_size if spec.causal else 2 * spec.block_size
        self.ahead = 0 if spec.causal else 2 * spec.block_size
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner, spec.bias)
        self.k = Linear(spec.hidden_size, inner, spec.bias)
        self.v = Linear(spec.hidden_size, inner, spec.bias)
        self.o = Linear(inner, spec.hidden_size, spec.bias)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W); T is 2C or 3C, the keys of a block."""
        q = split(rows(blocks(self.q(x), self.size)), self.num_heads)  # (B*M, N, C, H)
        k = split(self.around(blocks(self.k(x), self.size)), self.num_heads)  # (B*M, N, T, H)
        v = split(self.around(blocks(self.v(x), self.size)), self.num_heads)
        real = self.around(blocks(attention_mask[:, :, None], self.size))  # (B*M, T, 1)
        seen = distances(q, -self.size, self.end) <= self.ahead  # (C, T)
        mask = real.bool().transpose(1, 2)[:, None] & seen  # (B*M, 1, C, T)
        mixed = merge(F.scaled_dot_product_attention(q, k, v, mask))  # (B*M, C, N*H)
        y: Tensor = self.o(joined(mixed, x))  # (B, S, W)
        return y
