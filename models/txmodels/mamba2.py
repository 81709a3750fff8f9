"""State-space layers, in place of attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import Mamba2Spec, NormSpec
from txmodels.activation import softplus
from txmodels.causal_convolution import CausalConvolution
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked
from txmodels.state_space import state_space


class Mamba2(nn.Module):
    """Each token decays a matrix of each head, adds its inputs to it and reads it (Dao and Gu 2024, 6)."""

    def __init__(self, spec: Mamba2Spec):
        super().__init__()
        self.spec = spec
        inner, heads = spec.inner_size, spec.num_state_heads
        self.project = Linear(spec.hidden_size, inner + sum(spec.widths) + heads, spec.bias)
        self.convolution = CausalConvolution(sum(spec.widths), spec.kernel, spec.convolution_bias)
        self.rate = nn.Parameter(torch.zeros(heads))
        self.step = nn.Parameter(torch.zeros(heads))
        self.skip = nn.Parameter(torch.ones(heads))
        if spec.norm is not None:
            self.gated_norm = GroupedNorm(spec.norm, spec.num_groups)
        self.output = Linear(inner, spec.hidden_size, spec.bias)

    def forward(
        self,
        x: Tensor,
        conv: Tensor,
        ssm: Tensor,
        real: Tensor,
        ends: Tensor,
        logits_indices: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B,S,W), conv (B,H*P+2*G*D,K), ssm (B,H,P,D), real (B,S,1) is 0 for padding, ends (B).

        Returns y (B,S,W), conv, ssm. With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        spec = self.spec
        sizes = spec.inner_size, sum(spec.widths), spec.num_state_heads
        gate, inputs, steps = self.project(x).split(sizes, dim=2)
        mixed, conv = self.convolution(inputs * real, conv, ends)  # (B, S, H*P+2*G*D)
        x, b, c = F.silu(mixed).split(spec.widths, dim=2)
        heads = x.unflatten(2, (-1, spec.head_dim))  # (B, S, H, P)
        b, c = (one.unflatten(2, (-1, spec.state_size)) for one in (b, c))  # (B, S, G, D)
        steps = softplus(steps + self.step) * real  # (B, S, H)
        steps, decay = steps[..., None], (-self.rate.exp() * steps)[..., None]  # (B, S, H, 1)
        read, ssm = state_space(heads, b, c, steps, decay, ssm)  # (B, S, H, P)
        read = (read + self.skip[:, None] * heads).flatten(2)  # (B, S, H*P)
        read, gate = (asked(one, logits_indices) for one in (read, gate))  # (B, L, H*P)
        return self.output(self._gated(read, F.silu(gate))), conv, ssm

    def _gated(self, x: Tensor, gate: Tensor) -> Tensor:
        """x and gate (B,L,H*P) -> y (B,L,H*P)."""
        if self.spec.norm is not None and not self.spec.gate_first:
            x = self.gated_norm(x)
        y = x * gate
        if self.spec.norm is not None and self.spec.gate_first:
            y = self.gated_norm(y)
        return y


class GroupedNorm(Norm):
    """A root mean square over each group's part, and one scale of all."""

    def __init__(self, spec: NormSpec, groups: int):
        super().__init__(spec)
        self.groups = groups

    def forward(self, x: Tensor) -> Tensor:
        """x (B,L,H*P) -> y (B,L,H*P)."""
        if self.groups == 1:
            return super().forward(x)
        parts = x.unflatten(2, (self.groups, -1))  # (B, L, G, H/G*P)
        y: Tensor = F.rms_norm(parts, parts.shape[3:], eps=self.eps).flatten(2) * self.weight
        return y
