"""Gates of a relative position bias (Chen et al. 2022)."""

import torch
from torch import Tensor, nn

from txexport.spec import AttentionSpec
from txexport.spec.attention_parameters import GATES
from txmodels.linear import Linear
from txmodels.mask import biased_mask


class RelativeGate(nn.Module):
    """Gates of a relative position bias, of each query and head (Chen et al. 2022, 3.1)."""

    def __init__(self, spec: AttentionSpec):
        super().__init__()
        self.project = Linear(spec.hidden_size // spec.num_heads, GATES)
        self.num_heads = spec.num_heads
        self.constant = nn.Parameter(torch.ones(1, spec.num_heads, 1, 1))

    def forward(self, x: Tensor, relative: Tensor, mask: Tensor | None = None) -> Tensor:
        """x (B,S,W), relative bias (B,N,S,S) or (1,N,S,S), mask (B,1,S,S) or None -> gated (B,N,S,S).

        Half of the numbers of a query and head are summed for each of its two gates.
        """
        parts = self.project(x.unflatten(2, (self.num_heads, -1)).transpose(1, 2))  # (B, N, S, GATES)
        gates = parts.unflatten(3, (2, -1)).sum(dim=4).sigmoid()  # (B, N, S, 2)
        update, reset = gates.chunk(2, dim=3)
        gated = (update * (reset * self.constant - 1) + 2) * relative  # (B, N, S, S)
        return gated if mask is None else biased_mask(gated, mask)
