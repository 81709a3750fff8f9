"""One vector of a sequence, by attention."""

import torch
from torch import Tensor, nn

from txexport.spec import AttentionPoolSpec
from txmodels.attention import CrossAttention, CrossKeyValue
from txmodels.feedforward import FeedForward
from txmodels.mask import padding_mask
from txmodels.norm import Norm


class AttentionPool(nn.Module):
    """Attention pooling with a learned query (Lee et al. 2019, 3.2; Zhai et al. 2022, 3.2)."""

    def __init__(self, spec: AttentionPoolSpec):
        super().__init__()
        self.probe = nn.Embedding(1, spec.norm.size)
        self.key_value = CrossKeyValue(spec.attention)
        self.attention = CrossAttention(spec.attention)
        self.norm = Norm(spec.norm)
        self.feed_forward = FeedForward(spec.feed_forward)

    def forward(self, x: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """x (B,S,W), the attention_mask (B,S) of masked attention -> pooled (B,W)."""
        probe = self.probe(x.new_zeros(x.shape[0], 1, dtype=torch.long))  # (B, 1, W)
        k, v = self.key_value(x)  # (B, N, S, H)
        mask = None if attention_mask is None else padding_mask(attention_mask, probe)  # (B, 1, 1, S)
        (attended,) = self.attention(probe, mask, k, v)  # (B, 1, W)
        y = attended + self.feed_forward(self.norm(attended))
        pooled: Tensor = y[:, 0]
        return pooled
