"""A layer between two stages that makes a grid smaller by pooling the queries of its attention."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import QueryPoolingSpec
from txmodels.attention import merge, split
from txmodels.feedforward import FeedForward
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.window_attention import whole_windows, window_grid, window_rows


class PooledAttention(nn.Module):
    """Attention within windows, of one query for each square of vectors (Fan et al. 2021, 3.1)."""

    def __init__(self, spec: QueryPoolingSpec):
        super().__init__()
        self.spec = spec
        self.q = Linear(spec.hidden_size, spec.size)
        self.k = Linear(spec.hidden_size, spec.size)
        self.v = Linear(spec.hidden_size, spec.size)
        self.o = Linear(spec.size, spec.size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R/stride,C/stride,size); N heads of H numbers in each of M windows."""
        if self.spec.everywhere:
            return self._everywhere(x)
        window, stride, heads = self.spec.window, self.spec.stride, self.spec.num_heads
        padded = whole_windows(window, x)  # (B, R', C', W)
        pooled = largest(stride, self.q(padded))  # (B, R'/stride, C'/stride, size)
        q = window_rows(window // stride, heads, pooled).flatten(0, 1)  # (B*M, N, T/stride**2, H)
        k, v = (window_rows(window, heads, part(padded)).flatten(0, 1) for part in (self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v)
        grid = window_grid(window // stride, mixed.unflatten(0, (x.shape[0], -1)), pooled)
        y: Tensor = self.o(grid[:, : x.shape[1] // stride, : x.shape[2] // stride])
        return y

    def _everywhere(self, x: Tensor) -> Tensor:
        """As `forward`, of one window: the grid."""
        pooled = largest(self.spec.stride, self.q(x))  # (B, R/stride, C/stride, size)
        parts = pooled, self.k(x), self.v(x)
        q, k, v = (split(part.flatten(1, 2), self.spec.num_heads) for part in parts)  # (B, N, T, H)
        y: Tensor = self.o(merge(F.scaled_dot_product_attention(q, k, v))).unflatten(1, pooled.shape[1:3])
        return y


class QueryPooling(nn.Module):
    """Attention of pooled queries, then feed-forward, each in its residual and norm (Ryali et al. 2023)."""

    def __init__(self, spec: QueryPoolingSpec):
        super().__init__()
        self.stride = spec.stride
        self.attention_norm = Norm(spec.norm)
        self.project = Linear(spec.hidden_size, spec.size)
        self.attention = PooledAttention(spec)
        self.feed_forward_norm = Norm(spec.last_norm)
        self.feed_forward = FeedForward(spec.feed_forward)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,R,C,W) -> y (B,R/stride,C/stride,size)."""
        inner = self.attention_norm(x)
        residual = largest(self.stride, self.project(inner))  # (B, R/stride, C/stride, size)
        attended = residual + self.attention(inner)
        y: Tensor = attended + self.feed_forward(self.feed_forward_norm(attended))
        return y


def largest(stride: int, x: Tensor) -> Tensor:
    """x (B,R,C,W) -> the largest numbers of every square of `stride` by `stride` (B,R/stride,C/stride,W)."""
    y = F.max_pool2d(x.permute(0, 3, 1, 2), stride).permute(0, 2, 3, 1)
    return y
