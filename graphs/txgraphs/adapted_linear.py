"""Projection of the last axis with an adapter of low rank."""

import onnx_ir as ir

from txgraphs._component import Body, component
from txgraphs._nodes import Nodes
from txgraphs.grouped_linear import grouped_linear
from txgraphs.linear import linear


@component("y")
def with_adapter(bias: bool, g: Body, x: ir.Value) -> ir.Value:
    """x (..., in) -> y (..., out), plus two projections by way of fewer numbers (Hu et al. 2021, 4.1)."""
    low = linear(False, g / "adapter_down", x)
    y: ir.Value = g.op.Add(linear(bias, g, x), linear(False, g / "adapter_up", low))
    return y


def adapted_linear(inputs: int, bias: bool, groups: int, rank: int | None, g: Nodes, x: ir.Value) -> ir.Value:
    """x (..., in) -> y (..., out): the projection in `groups`, or one with an adapter of `rank`."""
    if rank is None:
        return grouped_linear(inputs, bias, groups, g, x)
    y: ir.Value = with_adapter(bias, g, x)
    return y
