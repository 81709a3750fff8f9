"""Time mixing, in place of attention."""

import torch
from torch import Tensor, nn

from txexport.spec import TimeMixSpec
from txmodels.linear import Linear
from txmodels.token_shift import interpolated, token_shift
from txmodels.wkv import wkv


class TimeMix(nn.Module):
    """A gated mean of past values, of keys that are their weights (Peng et al. 2023, RWKV, 3.1)."""

    def __init__(self, spec: TimeMixSpec):
        super().__init__()
        size = spec.hidden_size
        self.mix_k = nn.Parameter(torch.ones(size))
        self.mix_v = nn.Parameter(torch.ones(size))
        self.mix_gate = nn.Parameter(torch.ones(size))
        self.k, self.v = Linear(size, size, False), Linear(size, size, False)
        self.decay = nn.Parameter(torch.zeros(size))
        self.bonus = nn.Parameter(torch.zeros(size))
        self.gate, self.output = Linear(size, size, False), Linear(size, size, False)

    def forward(
        self,
        x: Tensor,
        time_shift: Tensor,
        numerator: Tensor,
        denominator: Tensor,
        maximum: Tensor,
        real: Tensor,
        ends: Tensor,
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), time_shift, numerator, denominator and maximum (B,W), real (B,S,1) is 0 for padding.

        ends (B) are the tokens up to the last of each row. Returns y (B,S,W) and the states.
        """
        x = x * real
        shifted, time_shift = token_shift(x, time_shift, ends)  # (B, S, W)
        k = self.k(interpolated(x, shifted, self.mix_k))
        v = self.v(interpolated(x, shifted, self.mix_v))
        sums = numerator, denominator, maximum
        read, *present = wkv(k, v, -self.decay.exp(), self.bonus, *sums, real)  # (B, S, W)
        opened = self.gate(interpolated(x, shifted, self.mix_gate)).sigmoid()
        y: Tensor = self.output(opened * read)
        return y, time_shift, *present
