"""Channel mixing: a feed-forward network over a token and the one before it."""

import torch
from torch import Tensor, nn

from txexport.spec import Activation, ChannelMixSpec
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.position import asked
from txmodels.token_shift import interpolated, token_shift


class ChannelMix(nn.Module):
    """A gated network with a squared ReLU over interpolated tokens (Peng et al. 2023, RWKV, 3.1)."""

    def __init__(self, spec: ChannelMixSpec):
        super().__init__()
        size, inner = spec.hidden_size, spec.intermediate_size
        self.mix_up = nn.Parameter(torch.ones(size))
        self.mix_gate = nn.Parameter(torch.ones(size))
        self.up, self.down = Linear(size, inner, False), Linear(inner, size, False)
        self.gate = Linear(size, size, False)
        self.act = activation(Activation.RELU_SQUARED)

    def forward(
        self,
        x: Tensor,
        channel_shift: Tensor,
        real: Tensor,
        ends: Tensor,
        logits_indices: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """x (B,S,W), channel_shift (B,W), real (B,S,1) is 0 for padding, ends (B).

        Returns y (B,S,W), channel_shift. With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        x = x * real
        shifted, channel_shift = token_shift(x, channel_shift, ends)  # (B, S, W)
        x, shifted = (asked(one, logits_indices) for one in (x, shifted))  # (B, L, W)
        inner = self.act(self.up(interpolated(x, shifted, self.mix_up)))  # (B, L, F)
        opened = self.gate(interpolated(x, shifted, self.mix_gate)).sigmoid()
        y: Tensor = opened * self.down(inner)
        return y, channel_shift
