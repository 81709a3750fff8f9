"""A decoder's layer that attends to images in place of tokens (Alayrac et al. 2022, 2.2)."""

from torch import Tensor, nn

from txexport.spec import BlockSpec, FeedForwardSpec, SourceAttentionSpec
from txmodels.attention import CrossAttention
from txmodels.feedforward import FeedForward
from txmodels.gate import Gate
from txmodels.norm import Norm
from txmodels.position import asked


class SourceBlock(nn.Module):
    """Attention over images, then feed-forward, each with a gate."""

    def __init__(self, spec: BlockSpec):
        super().__init__()
        assert isinstance(spec.attention, SourceAttentionSpec)
        assert isinstance(spec.feed_forward, FeedForwardSpec)
        self.attention_norm, self.attention = Norm(spec.norm), CrossAttention(spec.attention.attention)
        self.feed_forward_norm, self.feed_forward = Norm(spec.norm), FeedForward(spec.feed_forward)
        self.attention_tanh_gate, self.feed_forward_tanh_gate = Gate(), Gate()

    def forward(
        self,
        x: Tensor,
        mask: Tensor,
        sees: Tensor,
        k: Tensor,
        v: Tensor,
        logits_indices: Tensor | None = None,
    ) -> Tensor:
        """x (B,S,W), mask (B,S,E), k and v (B,K,E,H) -> y (B,S,W).

        The network's output is added for tokens that each see an image, as `sees` (B,S,1) tells. With
        logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        x, mask, sees = (asked(one, logits_indices) for one in (x, mask, sees))  # (B, L, ...)
        (mixed,) = self.attention(self.attention_norm(x), mask[:, None], k, v)
        attended = x + self.attention_tanh_gate(mixed)  # (B, S, W)
        fed = self.feed_forward(self.feed_forward_norm(attended)) * sees.to(x.dtype)
        y: Tensor = attended + self.feed_forward_tanh_gate(fed)  # (B, S, W)
        return y
