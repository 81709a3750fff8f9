"""Projection of the last axis in groups, each of its own part of the vector and of the output."""

import onnx_ir as ir

from txgraphs._component import Body, component
from txgraphs._nodes import Nodes
from txgraphs.linear import linear


@component("y")
def in_groups(inputs: int, bias: bool, groups: int, g: Body, x: ir.Value) -> ir.Value:
    """x (..., in) -> y (..., out), as a convolution of kernel 1 in groups (Iandola et al. 2020, 3.2)."""
    sizes = g.op.Constant(value_ints=[inputs // groups] * groups)
    numbers = range(groups)
    parts = g.op.Split(x, sizes, axis=-1, name=[f"part_{number}" for number in numbers])  # (..., in / G) each
    y: ir.Value = g.op.Concat(
        *(linear(bias, g / f"groups.{number}", parts[number]) for number in numbers), axis=-1
    )
    return y


def grouped_linear(inputs: int, bias: bool, groups: int, g: Nodes, x: ir.Value) -> ir.Value:
    """x (..., in) -> y (..., out): the projection in `groups`; a plain one for a single group."""
    if groups == 1:
        return linear(bias, g, x)
    y: ir.Value = in_groups(inputs, bias, groups, g, x)
    return y
