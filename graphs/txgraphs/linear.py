"""Projection of the last axis."""

from onnxscript import OnnxFunction, script

from txgraphs import domain, op


@script(domain, default_opset=op)
def linear_bias(x, weight, bias):
    rows = op.Gemm(op.Flatten(x, axis=-1), weight, bias, transB=1)  # (B*S, out)
    y = op.Reshape(rows, op.Concat(op.Shape(x, end=-1), op.Shape(weight, end=1), axis=0))
    return y


@script(domain, default_opset=op)
def linear_plain(x, weight, bias):
    rows = op.Gemm(op.Flatten(x, axis=-1), weight, transB=1)  # (B*S, out)
    y = op.Reshape(rows, op.Concat(op.Shape(x, end=-1), op.Shape(weight, end=1), axis=0))
    return y


def linear(bias: bool) -> OnnxFunction:
    """x (..., in) -> y (..., out): y = x weightᵀ + bias, with weight (out, in)."""
    return linear_bias if bias else linear_plain
