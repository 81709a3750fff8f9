"""Gated convolutions over the last tokens, in place of attention."""

from torch import Tensor, nn

from txexport.spec import ShortConvolutionSpec
from txmodels.causal_convolution import CausalConvolution
from txmodels.linear import Linear
from txmodels.position import asked


class ShortConvolution(nn.Module):
    """A causal convolution between two gates (Amini et al. 2025, LFM2, 2.1)."""

    def __init__(self, spec: ShortConvolutionSpec):
        super().__init__()
        self.project = Linear(spec.hidden_size, 3 * spec.hidden_size, spec.bias)
        self.convolution = CausalConvolution(spec.hidden_size, spec.kernel, spec.bias)
        self.output = Linear(spec.hidden_size, spec.hidden_size, spec.bias)

    def forward(
        self, x: Tensor, conv: Tensor, real: Tensor, ends: Tensor, logits_indices: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """x (B,S,W), conv (B,W,K), real (B,S,1) is 0 for padding, ends (B) -> y (B,S,W), conv (B,W,K).

        With logits_indices (B,L), y (B,L,W) is of these tokens only.
        """
        before, after, inner = self.project(x).chunk(3, dim=2)  # (B, S, W)
        mixed, conv = self.convolution(before * inner * real, conv, ends)  # (B, S, W)
        gated = asked(after * mixed, logits_indices)  # (B, L, W)
        return self.output(gated), conv
