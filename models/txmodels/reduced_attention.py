"""Layers over a grid of vectors: attention to fewer keys, and networks that read the neighbours."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import ConvolvedFeedForwardSpec, ReducedAttentionSpec
from txmodels.activation import activation
from txmodels.attention import merge, split
from txmodels.linear import Linear
from txmodels.norm import Norm


class ReducedAttention(nn.Module):
    """Attention of every vector of a grid to the keys of a smaller one (Wang et al. 2021, 3.3)."""

    def __init__(self, spec: ReducedAttentionSpec):
        super().__init__()
        self.num_heads = spec.num_heads
        width, side, inner = spec.hidden_size, spec.reduction, spec.num_heads * spec.head_dim
        self.q = Linear(width, inner, spec.bias)
        self.k = Linear(width, inner, spec.bias)
        self.v = Linear(width, inner, spec.bias)
        self.o = Linear(inner, width)
        self.reduce = nn.Conv2d(width, width, side, side) if spec.norm is not None else None
        self.reduced_norm = Norm(spec.norm) if spec.norm is not None else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W); every vector attends to T keys, those of the reduced grid."""
        read = x
        if self.reduce is not None and self.reduced_norm is not None:
            read = self.reduced_norm(self.reduce(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))  # (B, R', C', W)
        q = split(self.q(x).flatten(1, 2), self.num_heads)  # (B, N, S, H)
        k, v = (split(part(read).flatten(1, 2), self.num_heads) for part in (self.k, self.v))
        mixed = merge(F.scaled_dot_product_attention(q, k, v))  # (B, S, N*H)
        y: Tensor = self.o(mixed).unflatten(1, x.shape[1:3])
        return y


class ConvolvedFeedForward(nn.Module):
    """A network that convolves the grid of its inner vectors, each channel alone (Xie et al. 2021, 3.1)."""

    def __init__(self, spec: ConvolvedFeedForwardSpec):
        super().__init__()
        inner = spec.intermediate_size
        self.up, self.down = Linear(spec.hidden_size, inner), Linear(inner, spec.hidden_size)
        self.convolution = nn.Conv2d(inner, inner, spec.kernel, padding=spec.kernel // 2, groups=inner)
        self.act = activation(spec.activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R,C,W)."""
        convolved = self.convolution(self.up(x).permute(0, 3, 1, 2)).permute(0, 2, 3, 1)  # (B, R, C, F)
        y: Tensor = self.down(self.act(convolved))
        return y
