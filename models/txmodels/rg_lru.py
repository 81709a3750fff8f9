"""Gated linear recurrences, in place of attention."""

import torch
from torch import Tensor, nn

from txexport.spec import RgLruSpec
from txmodels.activation import activation, softplus
from txmodels.causal_convolution import CausalConvolution
from txmodels.grouped_linear import grouped_linear
from txmodels.linear import Linear
from txmodels.linear_recurrence import linear_recurrence
from txmodels.position import asked


class RgLru(nn.Module):
    """A recurrent block with a real-gated linear recurrent unit (De et al. 2024, 2.3 and 2.4)."""

    def __init__(self, spec: RgLruSpec):
        super().__init__()
        size, width = spec.hidden_size, spec.width
        self.project = Linear(size, width, True)
        self.convolution = CausalConvolution(width, spec.kernel, True)
        self.input_gate = grouped_linear(width, width, True, spec.num_blocks)
        self.recurrent_gate = grouped_linear(width, width, True, spec.num_blocks)
        self.rate = nn.Parameter(torch.zeros(width))
        self.gate = Linear(size, width, True)
        self.act = activation(spec.activation)
        self.output = Linear(width, size, True)

    def forward(
        self,
        x: Tensor,
        conv: Tensor,
        recurrent: Tensor,
        real: Tensor,
        ends: Tensor,
        first: Tensor,
        logits_indices: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B,S,W), conv (B,R,K), recurrent (B,R), real (B,S,1) is 0 for padding, ends (B).

        first (B,S,1) is true for the first token of a row. Returns y (B,S,W), conv, recurrent. With
        logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        inputs, conv = self.convolution(self.project(x) * real, conv, ends)  # (B, S, R)
        decay, scale = decays(self.recurrent_gate(inputs), self.rate, real, first)  # (B, S, R)
        added = inputs * self.input_gate(inputs).sigmoid() * real * scale
        read, recurrent = linear_recurrence(decay, added, recurrent)  # (B, S, R)
        read, x = (asked(one, logits_indices) for one in (read, x))  # (B, L, R)
        return self.output(read * self.act(self.gate(x))), conv, recurrent


def decays(gate: Tensor, rate: Tensor, real: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
    """The decay a of each channel, and the scale of what is added to it.

    a = exp(-8 sigmoid(gate) softplus(rate)), and the scale is sqrt(1 - a²), for the first token of a row 1;
    padding decays nothing. gate (B,S,R), rate (R), real and first (B,S,1) -> both (B,S,R).
    """
    logarithm = -8 * gate.sigmoid() * softplus(rate)
    decay = (logarithm * real).exp()
    scale = torch.where(first, 1, (1 - (2 * logarithm).exp()).sqrt())
    return decay, scale
