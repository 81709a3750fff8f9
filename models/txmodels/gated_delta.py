"""Linear attention with a gated delta rule, in place of attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import GatedDeltaSpec
from txmodels.activation import softplus
from txmodels.causal_convolution import CausalConvolution
from txmodels.delta_rule import delta_rule
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked


class GatedDelta(nn.Module):
    """Each token decays a matrix of each head, corrects it and reads it (Yang et al. 2024, 3.1)."""

    def __init__(self, spec: GatedDeltaSpec):
        super().__init__()
        self.spec = spec
        keys, _, values = spec.widths
        self.query = Linear(spec.hidden_size, keys, False)
        self.key = Linear(spec.hidden_size, keys, False)
        self.value = Linear(spec.hidden_size, values, False)
        self.gate = Linear(spec.hidden_size, spec.widths[2], False)
        self.beta = Linear(spec.hidden_size, spec.num_value_heads, False)
        self.decay = Linear(spec.hidden_size, spec.num_value_heads, False)
        self.convolution = CausalConvolution(sum(spec.widths), spec.kernel, False)
        self.rate = nn.Parameter(torch.zeros(spec.num_value_heads))
        self.step = nn.Parameter(torch.zeros(spec.num_value_heads))
        self.head_norm = Norm(spec.norm)
        self.output = Linear(spec.widths[2], spec.hidden_size, False)

    def forward(
        self,
        x: Tensor,
        conv: Tensor,
        recurrent: Tensor,
        real: Tensor,
        ends: Tensor,
        logits_indices: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """x (B,S,W), conv (B,2*K*D+V*E,P), recurrent (B,V,D,E), real (B,S,1) is 0 for padding, ends (B).

        Returns y (B,S,W), conv, recurrent. With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        spec = self.spec
        inputs = torch.cat([self.query(x), self.key(x), self.value(x)], dim=2) * real  # (B, S, 2*K*D+V*E)
        mixed, conv = self.convolution(inputs, conv, ends)
        q, k, v = F.silu(mixed).split(spec.widths, dim=2)
        q, k = (self._keys(one) for one in (q, k))  # (B, S, V, D)
        v = v.unflatten(2, (spec.num_value_heads, -1))  # (B, S, V, E)
        beta = (self.beta(x).sigmoid() * real)[..., None]  # (B, S, V, 1)
        beta = 2 * beta if spec.negative_eigenvalues else beta
        steps = softplus(self.decay(x) + self.step)  # (B, S, V)
        decay = (-self.rate.exp() * steps * real)[..., None]  # (B, S, V, 1)
        read, recurrent = delta_rule(q * spec.key_dim**-0.5, k, v, decay, beta, recurrent)  # (B, S, V, E)
        read, x = (asked(one, logits_indices) for one in (read.flatten(2), x))  # (B, L, V*E)
        heads = read.unflatten(2, (spec.num_value_heads, -1))  # (B, L, V, E)
        gated = self.head_norm(heads).flatten(2) * F.silu(self.gate(x))  # (B, L, V*E)
        return self.output(gated), conv, recurrent

    def _keys(self, x: Tensor) -> Tensor:
        """x (B,S,K*D) -> (B,S,V,D) of length 1, each for the heads of values that share it."""
        heads = normalised(x.unflatten(2, (self.spec.num_key_heads, -1)))  # (B, S, K, D)
        y = heads.repeat_interleave(self.spec.num_value_heads // self.spec.num_key_heads, dim=2)
        return y


def normalised(x: Tensor) -> Tensor:
    """x (...,D) -> vectors of length 1."""
    y = x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)
    return y
