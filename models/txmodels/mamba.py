"""Selective state spaces, in place of attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import MambaSpec
from txmodels.activation import softplus
from txmodels.causal_convolution import CausalConvolution
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.position import asked
from txmodels.selective_scan import selective_scan


class Mamba(nn.Module):
    """Each token decays the state of each channel, adds its input to it and reads it (Gu and Dao 2023)."""

    def __init__(self, spec: MambaSpec):
        super().__init__()
        self.spec = spec
        inner = spec.inner_size
        self.project = Linear(spec.hidden_size, 2 * inner, spec.bias)
        self.convolution = CausalConvolution(inner, spec.kernel, spec.convolution_bias)
        self.select = Linear(inner, sum(spec.widths), False)
        self.step = Linear(spec.step_rank, inner, True)
        if spec.norms is not None:
            self.step_norm, self.b_norm, self.c_norm = (Norm(one) for one in spec.norms)
        self.rate = nn.Parameter(torch.zeros(inner, spec.state_size))
        self.skip = nn.Parameter(torch.ones(inner))
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
        """x (B,S,W), conv (B,I,K), ssm (B,I,D), real (B,S,1) is 0 for padding, ends (B).

        Returns y (B,S,W), conv, ssm. With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        inputs, gate = self.project(x).chunk(2, dim=2)  # (B, S, I)
        mixed, conv = self.convolution(inputs * real, conv, ends)  # (B, S, I)
        x = F.silu(mixed)
        parts = self.select(x).split(self.spec.widths, dim=2)
        steps, b, c = self._normalised(*parts)  # (B, S, R), (B, S, D)
        steps = softplus(self.step(steps)) * real  # (B, S, I)
        read, ssm = selective_scan(x * steps, steps, b, c, -self.rate.exp(), ssm)  # (B, S, I)
        read = read + self.skip * x
        read, gate = (asked(one, logits_indices) for one in (read, gate))  # (B, L, I)
        return self.output(read * F.silu(gate)), conv, ssm

    def _normalised(self, steps: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """steps (B,S,R), b and c (B,S,D) -> normalised, or as they are."""
        if self.spec.norms is not None:
            return self.step_norm(steps), self.b_norm(b), self.c_norm(c)
        eps = self.spec.norm_eps
        return scaled(eps, steps), scaled(eps, b), scaled(eps, c)


def scaled(eps: float | None, x: Tensor) -> Tensor:
    """x (B,S,D) -> (B,S,D) of root mean square 1, or as it is."""
    return x if eps is None else F.rms_norm(x, x.shape[2:], eps=eps)
