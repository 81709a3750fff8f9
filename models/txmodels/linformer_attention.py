"""Multi-head attention over a fixed number of sums of the keys and values."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import LinformerAttentionSpec, Sharing
from txmodels.attention import merge, split
from txmodels.linear import Linear


class LengthProjection(nn.Module):
    """K sums of a sequence's tokens, shared by all heads or separate (Wang et al. 2020, 4)."""

    def __init__(self, spec: LinformerAttentionSpec):
        super().__init__()
        heads = (spec.num_heads,) if spec.sharing == Sharing.NONE else ()
        self.weight = nn.Parameter(torch.empty(*heads, spec.projected_length, spec.max_length))
        nn.init.normal_(self.weight, std=spec.projected_length**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,N,S,H) -> y (B,N,K,H); S is at most the spec's max_length."""
        y = self.weight[..., : x.shape[2]] @ x
        return y


class LinformerAttention(nn.Module):
    """Attention of every query to K sums of the real tokens (Wang et al. 2020, 4)."""

    def __init__(self, spec: LinformerAttentionSpec):
        super().__init__()
        self.num_heads, self.shared = spec.num_heads, spec.sharing == Sharing.KEY_VALUE
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner, spec.bias)
        self.k = Linear(spec.hidden_size, inner, spec.bias)
        self.v = Linear(spec.hidden_size, inner, spec.bias)
        self.o = Linear(inner, spec.hidden_size, spec.bias)
        self.e = LengthProjection(spec)
        if not self.shared:
            self.f = LengthProjection(spec)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W); S is at most the spec's max_length."""
        real = attention_mask[:, :, None].to(x.dtype)  # (B, S, 1)
        q = split(self.q(x), self.num_heads)  # (B, N, S, H)
        k = self.e(split(self.k(x) * real, self.num_heads))  # (B, N, K, H)
        v = split(self.v(x) * real, self.num_heads)  # (B, N, S, H)
        if self.shared:
            v = self.e(v)  # (B, N, K, H)
        else:
            v = self.f(v)
        mixed = merge(F.scaled_dot_product_attention(q, k, v))  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y
