"""The position-wise network of a block."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from txexport.spec import Activation, FeedForwardSpec
from txmodels.activation import activation
from txmodels.adapted_linear import adapted_linear
from txmodels.grouped_linear import grouped_linear
from txmodels.prelu import Prelu


class FeedForward(nn.Module):
    """Up, non-linearity, down (Vaswani et al. 2017, 3.3); or gated (Shazeer 2020, 2)."""

    def __init__(self, spec: FeedForwardSpec):
        super().__init__()
        self.act = Prelu() if spec.activation is Activation.PRELU else activation(spec.activation)
        self.gated, self.clip, self.cutoff = spec.gated, spec.clip, spec.cutoff
        sizes, rank = (spec.hidden_size, spec.intermediate_size, spec.bias), spec.adapter_rank
        self.up = adapted_linear(*sizes, spec.up_groups, rank)
        if self.gated:
            self.gate = adapted_linear(*sizes, 1, rank)
        self.down = grouped_linear(spec.intermediate_size, spec.hidden_size, spec.bias, spec.down_groups)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,S,W) -> y (B,S,W)."""
        return self.network(lambda part, x: getattr(self, part)(x), x)

    def network(self, project: Callable[[str, Tensor], Tensor], x: Tensor) -> Tensor:
        """As `forward`, with projections by the names of their modules: gate, up and down."""
        if self.clip is not None:
            gate, up = project("gate", x).clamp(max=self.clip), project("up", x).clamp(-self.clip, self.clip)
            wide = self.act(gate) * (up + 1)  # (B, S, F)
        elif self.gated:
            gate = project("gate", x) if self.cutoff is None else _beyond(project("gate", x), self.cutoff)
            wide = self.act(gate) * project("up", x)  # (B, S, F)
        else:
            wide = self.act(project("up", x))  # (B, S, F)
        y: Tensor = project("down", wide)  # (B, S, W)
        return y


def _beyond(x: Tensor, cutoff: float) -> Tensor:
    """x (B,S,F) -> what exceeds its mean by more than `cutoff` standard deviations, and 0 elsewhere."""
    mean = x.mean(-1, keepdim=True)  # (B, S, 1)
    spread = (x - mean).square().mean(-1, keepdim=True).sqrt()  # (B, S, 1)
    y = torch.relu(x - (mean + spread * cutoff))
    return y
