"""Squeezing and upsampling around a stack's layers (Wu et al. 2022)."""

import onnx_ir as ir

from txexport.spec import SqueezeSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("y")
def squeeze(spec: SqueezeSpec, g: Body, x: ir.Value) -> ir.Value:
    """Means of groups of vectors, plus positions by a convolution with their stride, normalised.

    x (B,S,W) -> y (B,S/factor,W).
    """
    op, factor, kernel = g.op, spec.factor, spec.position_kernel
    channels = op.Transpose(x, perm=[0, 2, 1])  # (B, W, S)
    means = op.AveragePool(channels, kernel_shape=[factor], strides=[factor], name="means")
    convolved = op.Conv(
        channels,
        g.weight("position.weight"),
        g.weight("position.bias"),
        pads=[kernel // 2, kernel // 2],
        strides=[factor],
        group=spec.position_groups,
        name="convolved",
    )
    start, axis = op.Constant(value_ints=[0]), op.Constant(value_ints=[2])
    convolved = op.Slice(convolved, start, op.Shape(means, start=2, end=3), axis)  # (B, W, S/factor)
    positions = g.call(activation(spec.activation), convolved, name="positions")
    vectors = op.Transpose(op.Add(means, positions), perm=[0, 2, 1])  # (B, S/factor, W)
    y = norm(spec.norm, g / "norm", vectors)
    return y


@component("pooled")
def pooled_mask(spec: SqueezeSpec, g: Body, mask: ir.Value) -> ir.Value:
    """The mask of groups, 1 for those with a vector of the signal: mask (B,S) -> pooled (B,S/factor)."""
    op, factor = g.op, spec.factor
    row = op.Constant(value_ints=[1])
    ones = op.Cast(op.Unsqueeze(mask, row), to=ir.DataType.FLOAT)  # (B, 1, S)
    highest = op.MaxPool(ones, kernel_shape=[factor], strides=[factor], name="highest")
    pooled = op.Cast(op.Squeeze(highest, row), to=ir.DataType.INT64)  # (B, S/factor)
    return pooled


@component("y")
def upsampling(spec: SqueezeSpec, g: Body, x: ir.Value, frames: ir.Value) -> ir.Value:
    """A projection that makes several vectors of each, and zeros up to a length.

    x (B,S/factor,W), frames (B,S,W) -> y (B,S,W).
    """
    op = g.op
    projected = g.call(activation(spec.activation), linear(True, g / "project", x))
    wide = op.Reshape(projected, op.Constant(value_ints=[0, -1, spec.norm.size]), name="wide")
    lost = op.Sub(op.Shape(frames, start=1, end=2), op.Shape(wide, start=1, end=2), name="lost")
    pads = op.Concat(op.Constant(value_ints=[0, 0, 0, 0]), lost, op.Constant(value_ints=[0]), axis=0)
    y = op.Pad(wide, pads, name="padded")  # (B, S, W)
    return y
