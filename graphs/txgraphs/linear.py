"""Projection of the last axis."""

import onnx_ir as ir

from txgraphs._component import Body, component
from txgraphs._nodes import Nodes, Received


@component("y")
def linear_bias(g: Body, x: ir.Value, weight: Received) -> ir.Value:
    """x (..., in) -> y (..., out): y = x weightᵀ + bias."""
    y = weight.product(g.op, x, g.weight("bias"))
    return y


@component("y")
def linear_plain(g: Body, x: ir.Value, weight: Received) -> ir.Value:
    """x (..., in) -> y (..., out): y = x weightᵀ."""
    y = weight.product(g.op, x)
    return y


def linear(bias: bool, g: Nodes, x: ir.Value) -> ir.Value:
    """x (..., in) -> y (..., out): y = x weightᵀ + bias, with weight (out, in)."""
    return project(bias, g, x, g.matrix("weight"))


def project(bias: bool, g: Nodes, x: ir.Value, weight: Received) -> ir.Value:
    """As `linear`, with a matrix that may be another component's."""
    y: ir.Value = (linear_bias if bias else linear_plain)(g, x, weight)
    return y
