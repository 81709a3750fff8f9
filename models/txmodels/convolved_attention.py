"""Attention beside convolutions whose kernels are made of the tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import ConvolvedAttentionSpec
from txmodels.attention import merge, split
from txmodels.linear import Linear
from txmodels.mask import padding_mask


class ConvolvedAttention(nn.Module):
    """Half of the heads attend, half convolve with kernels of their own (Jiang et al. 2020, 4)."""

    def __init__(self, spec: ConvolvedAttentionSpec):
        super().__init__()
        self.num_heads, self.kernel_size = spec.num_heads, spec.kernel
        width, inner = spec.hidden_size, spec.num_heads * spec.head_dim
        self.q, self.k, self.v = Linear(width, inner), Linear(width, inner), Linear(width, inner)
        self.depthwise = nn.Conv1d(
            width, width, spec.kernel, padding=spec.kernel // 2, groups=width, bias=False
        )
        self.pointwise = Linear(width, inner)
        self.kernel = Linear(inner, spec.num_heads * spec.kernel)
        self.convolved = Linear(width, inner)
        self.o = Linear(2 * inner, width)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W)."""
        queries = self.q(x)  # (B, S, N*H)
        q, k, v = (split(part, self.num_heads) for part in (queries, self.k(x), self.v(x)))  # (B, N, S, H)
        mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S, S)
        mixed = merge(F.scaled_dot_product_attention(q, k, v, mask))  # (B, S, N*H)
        span = self.pointwise(self.depthwise(x.mT).mT)  # (B, S, N*H)
        kernels = self.kernel(span * queries).unflatten(2, (self.num_heads, -1)).softmax(-1)  # (B, S, N, K)
        side = self.kernel_size // 2
        padded = F.pad(self.convolved(x), (0, 0, side, side)).unflatten(2, (self.num_heads, -1))
        windows = padded.unfold(1, self.kernel_size, 1)  # (B, S, N, H, K)
        convolved = (windows * kernels[..., None, :]).sum(-1).flatten(2)  # (B, S, N*H)
        y: Tensor = self.o(torch.cat([mixed, convolved], dim=2))
        return y
