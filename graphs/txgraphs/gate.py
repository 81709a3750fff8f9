"""Learned factors of what passes."""

import onnx_ir as ir

from txgraphs._component import Body, component


@component("y")
def gate(g: Body, x: ir.Value) -> ir.Value:
    """x (...,W) -> y (...,W), times the tanh of a learned number (Alayrac et al. 2022, 2.2)."""
    y = g.op.Mul(x, g.op.Tanh(g.weight("weight")))
    return y
