"""The convolution module of a Conformer."""

import onnx_ir as ir

from txexport.spec import ConvolutionModuleSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.batch_norm import batch_norm
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("y")
def conformer_convolution(
    spec: ConvolutionModuleSpec, g: Body, x: ir.Value, attention_mask: ir.Value | None
) -> ir.Value:
    """Gated projection, depthwise convolution, norm, activation, projection (Gulati et al. 2020, 2.2).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    op, width = g.op, spec.hidden_size
    halves = op.Constant(value_ints=[width, width])
    values, gates = op.Split(
        linear(spec.bias, g / "pointwise_in", x), halves, axis=-1, name=["values", "gates"]
    )
    gated = op.Mul(values, op.Sigmoid(gates), name="gated")  # (B, S, W)
    if spec.masked and attention_mask is not None:
        real = op.Unsqueeze(op.Cast(attention_mask, to=ir.DataType.BOOL), op.Constant(value_ints=[2]))
        gated = op.Where(real, gated, op.CastLike(op.Constant(value_float=0.0), gated), name="real")
    before = spec.kernel - 1 if spec.causal else spec.kernel // 2
    weights = [g.weight("depthwise.weight"), *([g.weight("depthwise.bias")] if spec.bias else [])]
    pads, channels = [before, spec.kernel - 1 - before], op.Transpose(gated, perm=[0, 2, 1])
    convolved = op.Conv(channels, *weights, pads=pads, group=width, name="convolved")  # (B, W, S)
    if spec.batch_norm is not None:
        normed = op.Transpose(
            batch_norm(spec.batch_norm, g / "depthwise_norm", convolved), perm=[0, 2, 1]
        )  # (B, S, W)
    elif spec.norm is not None:
        normed = norm(spec.norm, g / "depthwise_norm", op.Transpose(convolved, perm=[0, 2, 1]))
    y = linear(spec.bias, g / "pointwise_out", g.call(activation(spec.activation), normed))
    return y
