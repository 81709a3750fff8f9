"""The convolution module of a Conformer."""

import torch.nn.functional as F
from torch import Tensor, nn

from txexport.spec import ConvolutionModuleSpec
from txmodels.activation import activation
from txmodels.batch_norm import BatchNorm
from txmodels.linear import Linear
from txmodels.norm import Norm


class ConformerConvolution(nn.Module):
    """Gated projection, depthwise convolution, norm, activation, projection (Gulati et al. 2020, 2.2)."""

    def __init__(self, spec: ConvolutionModuleSpec):
        super().__init__()
        self.spec, width = spec, spec.hidden_size
        self.act = activation(spec.activation)
        self.pointwise_in = Linear(width, 2 * width, spec.bias)
        self.depthwise = nn.Conv1d(width, width, spec.kernel, groups=width, bias=spec.bias)
        if spec.batch_norm is not None:
            self.depthwise_norm: nn.Module = BatchNorm(spec.batch_norm)
        elif spec.norm is not None:
            self.depthwise_norm = Norm(spec.norm)
        self.pointwise_out = Linear(width, width, spec.bias)

    def forward(self, x: Tensor, attention_mask: Tensor | None) -> Tensor:
        """x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W)."""
        gated = F.glu(self.pointwise_in(x), dim=-1)  # (B, S, W)
        if self.spec.masked and attention_mask is not None:
            gated = gated.masked_fill(~attention_mask.bool()[:, :, None], 0.0)
        before = self.spec.kernel - 1 if self.spec.causal else self.spec.kernel // 2
        padded = F.pad(gated.mT, (before, self.spec.kernel - 1 - before))  # (B, W, S + kernel - 1)
        convolved = self.depthwise(padded)  # (B, W, S)
        if self.spec.batch_norm is not None:
            normed = self.depthwise_norm(convolved).mT  # (B, S, W)
        else:
            normed = self.depthwise_norm(convolved.mT)
        y: Tensor = self.pointwise_out(self.act(normed))
        return y
