"""Normalisation of maps in groups of channels."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import GroupNormSpec
from txgraphs import domain, op
from txgraphs._component import Body, component


@component("y")
def group_norm(spec: GroupNormSpec, g: Body, x: ir.Value) -> ir.Value:
    """Normalisation of groups of channels over all places (Wu and He 2018, 3).

    x (B,F,R,C) -> y (B,F,R,C).
    """
    op = g.op
    one, zero = (op.CastLike(op.Constant(value_floats=[value] * spec.groups), x) for value in (1.0, 0.0))
    rows = op.Reshape(x, op.Constant(value_ints=[0, spec.groups, -1]))  # (B, G, F / G * R * C)
    normed = op.InstanceNormalization(rows, one, zero, epsilon=spec.eps)
    normed = op.Reshape(normed, op.Shape(x), name="normed")
    y = g.call(scaled_channels, normed, g.weight("weight"), g.weight("bias"))
    return y


@script(domain, default_opset=op)
def scaled_channels(x, weight, bias):
    """x (B,F,R,C), weight and bias (F) -> y (B,F,R,C)."""
    axes = op.Constant(value_ints=[1, 2])
    y = x * op.Unsqueeze(weight, axes) + op.Unsqueeze(bias, axes)
    return y
