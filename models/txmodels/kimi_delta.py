"""Kimi delta attention: linear attention with a delta rule that decays channels apart."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import KimiDeltaSpec
from txmodels.activation import softplus
from txmodels.causal_convolution import CausalConvolution
from txmodels.channel_delta_rule import channel_delta_rule
from txmodels.gated_delta import normalised
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked


class KimiDelta(nn.Module):
    """Each token decays the rows of a matrix of each head, corrects it and reads it (Kimi Team 2025, 3)."""

    def __init__(self, spec: KimiDeltaSpec):
        super().__init__()
        self.spec = spec
        self.query = Linear(spec.hidden_size, spec.width, False)
        self.key = Linear(spec.hidden_size, spec.width, False)
        self.value = Linear(spec.hidden_size, spec.width, False)
        self.decay_down = Linear(spec.hidden_size, spec.head_dim, False)
        self.decay_up = Linear(spec.head_dim, spec.width, False)
        self.gate_down = Linear(spec.hidden_size, spec.head_dim, False)
        self.gate_up = Linear(spec.head_dim, spec.width, False)
        self.beta = Linear(spec.hidden_size, spec.num_delta_heads, False)
        self.convolution = CausalConvolution(3 * spec.width, spec.kernel, False)
        self.rate = nn.Parameter(torch.zeros(spec.num_delta_heads))
        self.step = nn.Parameter(torch.zeros(spec.width))
        self.head_norm = Norm(spec.norm)
        self.output = Linear(spec.width, spec.hidden_size, False)

    def forward(
        self,
        x: Tensor,
        conv: Tensor,
        recurrent: Tensor,
        real: Tensor,
        ends: Tensor,
        logits_indices: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B,S,W), conv (B,3*V*D,P), recurrent (B,V,D,D), real (B,S,1) is 0 for padding, ends (B).

        Returns y (B,S,W), conv, recurrent. With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        heads = self.spec.num_delta_heads
        inputs = torch.cat([self.query(x), self.key(x), self.value(x)], dim=2) * real  # (B, S, 3*V*D)
        mixed, conv = self.convolution(inputs, conv, ends)
        q, k, v = (one.unflatten(2, (heads, -1)) for one in F.silu(mixed).chunk(3, dim=2))  # (B, S, V, D)
        beta = (self.beta(x).sigmoid() * real)[..., None]  # (B, S, V, 1)
        steps = softplus(self.decay_up(self.decay_down(x)) + self.step) * real  # (B, S, V*D)
        decay = -self.rate.exp()[:, None] * steps.unflatten(2, (heads, -1))  # (B, S, V, D)
        queries = normalised(q) * self.spec.head_dim**-0.5
        read, recurrent = channel_delta_rule(queries, normalised(k), v, decay, beta, recurrent)
        read, x = (asked(one, logits_indices) for one in (read.flatten(2), x))  # (B, L, V*D)
        normed = self.head_norm(read.unflatten(2, (heads, -1))).flatten(2)  # (B, L, V*D)
        gated = normed * self.gate_up(self.gate_down(x)).sigmoid()
        return self.output(gated), conv, recurrent
