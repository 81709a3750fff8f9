"""Projection of the last axis."""

import onnx_ir as ir
from onnxscript import script

from txgraphs import domain, op
from txgraphs._graph import Nodes


@script(domain, default_opset=op)
def linear_bias(x, weight, bias):
    rows = op.Gemm(op.Flatten(x, axis=-1), weight, bias, transB=1)  # (B*S, out)
    y = op.Reshape(rows, op.Concat(op.Shape(x, end=-1), op.Shape(weight, end=1), axis=0))
    return y


@script(domain, default_opset=op)
def linear_plain(x, weight):
    rows = op.Gemm(op.Flatten(x, axis=-1), weight, transB=1)  # (B*S, out)
    y = op.Reshape(rows, op.Concat(op.Shape(x, end=-1), op.Shape(weight, end=1), axis=0))
    return y


def linear(bias: bool, g: Nodes, x: ir.Value) -> ir.Value:
    """x (..., in) -> y (..., out): y = x weightᵀ + bias, with weight (out, in)."""
    return project(bias, g, x, g.weight("weight"))


def project(bias: bool, g: Nodes, x: ir.Value, weight: ir.Value) -> ir.Value:
    """As `linear`, with a matrix that may be another component's."""
    if bias:
        return g.call(linear_bias, x, weight, g.weight("bias"))
    return g.call(linear_plain, x, weight)
