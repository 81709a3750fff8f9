"""Convolutions over time with a gated linear unit."""

import onnx_ir as ir

from txgraphs._component import Body, component


@component("y")
def gated_convolution(size: int, kernel: int, stride: int, padding: int, g: Body, x: ir.Value) -> ir.Value:
    """A convolution over time; the second half of its channels gates the first (Dauphin et al. 2017, 2).

    x (B,S,W) -> y (B,S',size).
    """
    op, channels = g.op, g.op.Transpose(x, perm=[0, 2, 1])  # (B, W, S)
    weights = g.weight("weight"), g.weight("bias")
    convolved = op.Conv(channels, *weights, pads=[padding] * 2, strides=[stride], name="convolved")
    halves = op.Constant(value_ints=[size] * 2)
    values, gates = op.Split(convolved, halves, axis=1, name=["values", "gates"])  # (B, size, S')
    gated = op.Mul(values, op.Sigmoid(gates), name="gated")
    y = op.Transpose(gated, perm=[0, 2, 1])  # (B, S', size)
    return y
