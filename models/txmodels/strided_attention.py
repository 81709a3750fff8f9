"""Multi-head attention to the last tokens in half of the heads, to every stride-th in the others."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import StridedAttentionSpec
from txmodels.attention import merge, split
from txmodels.blocks import blocks, columns, distances, joined, preceded, rows
from txmodels.linear import Linear


class StridedAttention(nn.Module):
    """Causal attention over two sets of keys, each in half of the heads (Child et al. 2019, 4.3 and 5.2).

    Token i attends to i - C..i in the first half, and i, i - C, i - 2C, ... in the second; C is the stride.
    """

    def __init__(self, spec: StridedAttentionSpec):
        super().__init__()
        self.num_halved, self.size = spec.num_heads // 2, spec.stride
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner, spec.bias)
        self.k = Linear(spec.hidden_size, inner, spec.bias)
        self.v = Linear(spec.hidden_size, inner, spec.bias)
        self.o = Linear(inner, spec.hidden_size, spec.bias)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W)."""
        near_q, far_q = blocks(self.q(x), self.size).chunk(2, dim=3)  # (B, M, C, N/2*H)
        near_k, far_k = blocks(self.k(x), self.size).chunk(2, dim=3)
        near_v, far_v = blocks(self.v(x), self.size).chunk(2, dim=3)
        real = blocks(attention_mask[:, :, None], self.size)  # (B, M, C, 1)
        near = self._near(near_q, near_k, near_v, real)  # (B*M, C, N/2*H)
        far = self._far(far_q, far_k, far_v, real)  # (B*M, C, N/2*H)
        mixed = torch.cat([near, far], dim=2)  # (B*M, C, N*H)
        y: Tensor = self.o(joined(mixed, x))  # (B, S, W)
        return y

    def _near(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        """q, k and v (B,M,C,N/2*H), real (B,M,C,1) -> (B*M,C,N/2*H): over the last C tokens."""
        q = split(rows(q), self.num_halved)  # (B*M, N/2, C, H)
        k = split(preceded(k), self.num_halved)  # (B*M, N/2, 2C, H)
        v = split(preceded(v), self.num_halved)
        apart = distances(q, -self.size, self.size)  # (C, 2C)
        seen = (apart <= 0) & (apart >= -self.size)
        mask = preceded(real).bool().transpose(1, 2)[:, None] & seen  # (B*M, 1, C, 2C)
        mixed = merge(F.scaled_dot_product_attention(q, k, v, mask))
        return mixed

    def _far(self, q: Tensor, k: Tensor, v: Tensor, real: Tensor) -> Tensor:
        """q, k and v (B,M,C,N/2*H), real (B,M,C,1) -> (B*M,C,N/2*H): over the same index in past blocks."""
        q = split(columns(q), self.num_halved)  # (B*C, N/2, M, H)
        k = split(columns(k), self.num_halved)
        v = split(columns(v), self.num_halved)
        seen = distances(q, 0, real.shape[1]) <= 0  # (M, M)
        mask = columns(real).bool().transpose(1, 2)[:, None] & seen  # (B*C, 1, M, M)
        column = merge(F.scaled_dot_product_attention(q, k, v, mask))  # (B*C, M, N/2*H)
        mixed = columns(column.unflatten(0, (-1, self.size)))
        return mixed
