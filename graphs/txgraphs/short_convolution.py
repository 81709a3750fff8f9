"""Gated convolutions over the last tokens, in place of attention."""

import onnx_ir as ir

from txexport.spec import ShortConvolutionSpec
from txgraphs._component import Body, component
from txgraphs.causal_convolution import causal_convolution
from txgraphs.linear import linear
from txgraphs.position import asked


@component("y", "conv")
def short_convolution(
    spec: ShortConvolutionSpec,
    g: Body,
    x: ir.Value,
    conv: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value]:
    """A causal convolution between two gates (Amini et al. 2025, LFM2, 2.1).

    x (B,S,W), conv (B,W,K), real (B,S,1) is 0 for padding, ends (B) -> y (B,S,W), conv (B,W,K). With
    logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op, thirds = g.op, linear(spec.bias, g / "project", x)
    sizes = op.Constant(value_ints=[spec.hidden_size] * 3)
    before, after, inner = op.Split(thirds, sizes, axis=2, name=["before", "after", "inner"])  # (B, S, W)
    inputs = op.Mul(op.Mul(before, inner), real)
    mixed, conv = causal_convolution(spec.kernel, spec.bias, g / "convolution", inputs, conv, ends)
    gated = asked(g, op.Mul(after, mixed), logits_indices)  # (B, L, W)
    return linear(spec.bias, g / "output", gated), conv
