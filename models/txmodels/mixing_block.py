"""A layer of two sublayers that both keep states: time mixing and channel mixing."""

from torch import Tensor, nn

from txexport.spec import BlockSpec, ChannelMixSpec, TimeMixSpec
from txmodels.channel_mix import ChannelMix
from txmodels.norm import Norm
from txmodels.position import asked
from txmodels.time_mix import TimeMix


class MixingBlock(nn.Module):
    """Time mixing, then channel mixing, each in its residual and norm (Peng et al. 2023, RWKV, 3)."""

    def __init__(self, spec: BlockSpec):
        super().__init__()
        assert isinstance(spec.attention, TimeMixSpec)
        assert isinstance(spec.feed_forward, ChannelMixSpec)
        self.attention, self.attention_norm = TimeMix(spec.attention), Norm(spec.norm)
        self.feed_forward, self.feed_forward_norm = ChannelMix(spec.feed_forward), Norm(spec.norm)

    def forward(
        self,
        x: Tensor,
        real: Tensor,
        ends: Tensor,
        channel_shift: Tensor,
        logits_indices: Tensor | None = None,
        **states: Tensor,
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), real (B,S,1), ends (B), the states (B,W) of both sublayers -> y (B,S,W), the states.

        With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        mixed, *present = self.attention(self.attention_norm(x), **states, real=real, ends=ends)
        attended = x + mixed  # (B, S, W)
        inner = self.feed_forward_norm(attended)
        fed, channel_shift = self.feed_forward(inner, channel_shift, real, ends, logits_indices)
        y = asked(attended, logits_indices) + fed  # (B, L, W)
        return y, *present, channel_shift
