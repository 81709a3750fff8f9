"""Multi-head attention whose exponentials are expected products of random features."""

import torch
from torch import Tensor, nn

from txexport.spec import PerformerAttentionSpec
from txmodels._random_features import orthogonal
from txmodels.attention import merge, split
from txmodels.linear import Linear

LOWEST = -3.0e38
LEAST = 1.0e-30  # the least divisor, for a row without tokens


class Features(nn.Module):
    """M random directions, and the exponents of positive features (Choromanski et al. 2021, 2.3 and 2.4)."""

    def __init__(self, spec: PerformerAttentionSpec):
        super().__init__()
        self.scale = spec.head_dim**-0.25
        directions = torch.tensor(orthogonal(spec.num_features, spec.head_dim))
        self.weight = nn.Parameter(directions, requires_grad=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,N,S,H) -> products (B,N,S,M), halves (B,N,S,1) of the squared lengths."""
        scaled = x * self.scale
        products = scaled @ self.weight.mT
        halves = (scaled * scaled).sum(-1, keepdim=True) * 0.5
        return products, halves


class PerformerAttention(nn.Module):
    """Attention without scores of pairs: keys and values are summed first (Choromanski et al. 2021, 2.2)."""

    def __init__(self, spec: PerformerAttentionSpec):
        super().__init__()
        self.num_heads, self.epsilon = spec.num_heads, spec.epsilon
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner, spec.bias)
        self.k = Linear(spec.hidden_size, inner, spec.bias)
        self.v = Linear(spec.hidden_size, inner, spec.bias)
        self.o = Linear(inner, spec.hidden_size, spec.bias)
        self.features = Features(spec)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W)."""
        real = attention_mask[:, None, :, None]  # (B, 1, S, 1)
        products, halves = self.features(split(self.q(x), self.num_heads))  # (B, N, S, M), (B, N, S, 1)
        most = products.amax(-1, keepdim=True)  # (B, N, S, 1)
        q = (products - halves - most).exp() + self.epsilon  # (B, N, S, M)
        products, halves = self.features(split(self.k(x), self.num_heads))
        products = products.where(real.bool(), LOWEST)
        most = products.amax((-1, -2), keepdim=True)  # (B, N, 1, 1)
        k = ((products - halves - most).exp() + self.epsilon) * real.to(x.dtype)  # (B, N, S, M)
        v = split(self.v(x), self.num_heads)  # (B, N, S, H)
        sums = k.mT @ v  # (B, N, M, H)
        shares = q @ k.sum(2, keepdim=True).mT  # (B, N, S, 1)
        mixed = merge(q @ sums / shares.clamp(min=LEAST))  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y
