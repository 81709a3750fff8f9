"""Multi-head attention within a sliding window, and between all tokens and a few global ones."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import LongformerAttentionSpec
from txmodels.attention import merge, split
from txmodels.blocks import blocks, distances, joined, rows, surrounded
from txmodels.linear import Linear
from txmodels.mask import padding_mask


def marked_tokens(marks: Tensor) -> tuple[Tensor, Tensor]:
    """marks (B,S) of 0 and 1 -> indices (B,G) of each row's 1s in order, and which of them are valid (B,G).

    G is the largest number of marks in a row, or 1.
    """
    length = marks.shape[1]
    most = int(marks.sum(1).max().clamp(min=1))
    order = marks * length - torch.arange(length, device=marks.device)  # (B, S), more than 0 where marked
    top, indices = order.topk(most, dim=1)  # (B, G)
    true = top > 0
    return indices, true


def picked(x: Tensor, places: Tensor) -> Tensor:
    """x (B,S,W), places (B,G) -> (B,G,W): row b's tokens at places[b]."""
    y = torch.take_along_dim(x, places[:, :, None], dim=1)
    return y


def repeated(x: Tensor, like: Tensor) -> Tensor:
    """x (B,G,W), like (B,M,...) -> (B*M,G,W): a copy for every block."""
    y = rows(x[:, None].expand(-1, like.shape[1], -1, -1))
    return y


class LongformerAttention(nn.Module):
    """Attention to neighbours and to global tokens, with full attention (Beltagy et al. 2020, 3.1)."""

    def __init__(self, spec: LongformerAttentionSpec):
        super().__init__()
        self.num_heads, self.size = spec.num_heads, spec.window // 2
        inner = spec.num_heads * spec.head_dim
        self.q = Linear(spec.hidden_size, inner, spec.bias)
        self.k = Linear(spec.hidden_size, inner, spec.bias)
        self.v = Linear(spec.hidden_size, inner, spec.bias)
        self.o = Linear(inner, spec.hidden_size, spec.bias)
        self.q_global = Linear(spec.hidden_size, inner, spec.bias)
        self.k_global = Linear(spec.hidden_size, inner, spec.bias)
        self.v_global = Linear(spec.hidden_size, inner, spec.bias)

    def forward(self, x: Tensor, attention_mask: Tensor, global_attention_mask: Tensor) -> Tensor:
        """x (B,S,W), both masks (B,S) of 0 and 1 -> y (B,S,W); a padded query attends to nothing."""
        marks = attention_mask * global_attention_mask  # (B, S)
        global_indices, true = marked_tokens(marks)  # (B, G)
        q, k, v = self.q(x), self.k(x), self.v(x)  # (B, S, N*H)
        near = self._near(q, k, v, attention_mask, marks, global_indices, true)  # (B, S, N*H)
        q = split(self.q_global(picked(x, global_indices)), self.num_heads)  # (B, N, G, H)
        k = split(self.k_global(x), self.num_heads)  # (B, N, S, H)
        v = split(self.v_global(x), self.num_heads)
        mask = padding_mask(attention_mask, global_indices)  # (B, 1, G, S)
        far = merge(F.scaled_dot_product_attention(q, k, v, mask))  # (B, G, N*H)
        back = (marks.cumsum(1) - 1).clamp(min=0)  # (B, S), where `far` holds a global token
        mixed = torch.where(marks.bool()[:, :, None], picked(far, back), near)  # (B, S, N*H)
        y: Tensor = self.o(mixed)  # (B, S, W)
        return y

    def _near(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attention_mask: Tensor,
        marks: Tensor,
        places: Tensor,
        true: Tensor,
    ) -> Tensor:
        """q, k, v (B,S,N*H) -> (B,S,N*H): over a block's neighbourhood of 3C keys and the global ones."""
        whole = blocks(attention_mask[:, :, None], self.size)  # (B, M, C, 1)
        local = blocks((attention_mask - marks)[:, :, None], self.size)  # global keys stand apart
        keys = torch.cat([surrounded(blocks(k, self.size)), repeated(picked(k, places), whole)], dim=1)
        values = torch.cat([surrounded(blocks(v, self.size)), repeated(picked(v, places), whole)], dim=1)
        heads = split(rows(blocks(q, self.size)), self.num_heads)  # (B*M, N, C, H)
        inside = distances(heads, -self.size, 2 * self.size).abs() <= self.size  # (C, 3C)
        window = surrounded(local).bool().transpose(1, 2) & inside  # (B*M, C, 3C)
        extra = repeated(true[:, :, None], whole).transpose(1, 2).expand(-1, self.size, -1)  # (B*M, C, G)
        mask = torch.cat([window, extra], dim=2) & rows(whole).bool()  # (B*M, C, 3C+G)
        keys, values = split(keys, self.num_heads), split(values, self.num_heads)  # (B*M, N, 3C+G, H)
        mixed = joined(merge(F.scaled_dot_product_attention(heads, keys, values, mask[:, None])), q)
        return mixed
