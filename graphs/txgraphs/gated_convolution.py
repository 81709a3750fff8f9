"""Convolutions over time with a gated linear unit."""

import onnx_ir as ir

from txgraphs._component import Body, component


@component("gated")
def gated_convolution(out_size: int, kernel: int, stride: int, g: Body, frames: ir.Value) -> ir.Value:
    """A convolution with a stride, whose second half of channels gates the first (Dauphin et al. 2017, 2).

    frames (B,channels,S) -> gated (B,channels,S), of half the convolution's channels.
    """
    op, pads = g.op, [kernel // 2] * 2
    weights = g.weight("weight"), g.weight("bias")
    convolved = op.Conv(frames, *weights, pads=pads, strides=[stride], name="convolved")
    halves = op.Constant(value_ints=[out_size // 2] * 2)
    values, gates = op.Split(convolved, halves, axis=1, name=["values", "gates"])
    gated = op.Mul(values, op.Sigmoid(gates))
    return gated
