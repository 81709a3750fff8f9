"""A layer within a bottleneck: attention and several networks, narrower than the vectors around it."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import BottleneckSpec
from txmodels.attention import merge, split
from txmodels.feedforward import FeedForward
from txmodels.linear import Linear
from txmodels.mask import padding_mask
from txmodels.norm import Norm


class Bottleneck(nn.Module):
    """The sum that a layer of MobileBERT adds to its input (Sun et al. 2020, 3.1 and 3.2)."""

    def __init__(self, spec: BottleneckSpec):
        super().__init__()
        self.num_heads = spec.num_heads
        self.residual, self.residual_norm = Linear(spec.hidden_size, spec.size), Norm(spec.norm)
        self.narrow, self.narrow_norm = Linear(spec.hidden_size, spec.size), Norm(spec.norm)
        self.q = Linear(spec.size, spec.size)
        self.k = Linear(spec.size, spec.size)
        self.v = Linear(spec.hidden_size, spec.size)
        self.o, self.o_norm = Linear(spec.size, spec.size), Norm(spec.norm)
        self.networks = nn.ModuleList(FeedForward(spec.feed_forward) for _ in range(spec.networks))
        self.norms = nn.ModuleList(Norm(spec.norm) for _ in range(spec.networks))
        self.wide = Linear(spec.size, spec.hidden_size)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W)."""
        narrow = self.narrow_norm(self.narrow(x))  # (B, S, N*H)
        q = split(self.q(narrow), self.num_heads)  # (B, N, S, H)
        k = split(self.k(narrow), self.num_heads)
        v = split(self.v(x), self.num_heads)
        mask = padding_mask(attention_mask, attention_mask)  # (B, 1, S, S)
        mixed = self.o(merge(F.scaled_dot_product_attention(q, k, v, mask)))  # (B, S, N*H)
        inner = self.o_norm(mixed + self.residual_norm(self.residual(x)))
        for network, norm in zip(self.networks, self.norms, strict=True):
            inner = norm(network(inner) + inner)
        y: Tensor = self.wide(inner)
        return y
