"""Neighbouring patches of images of any size, merged before a connector."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import PatchMergerSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("y")
def patch_merger(
    spec: PatchMergerSpec, patch_size: int, g: Body, x: ir.Value, pixel_values: ir.Value
) -> ir.Value:
    """A norm, then a projection of squares of neighbours, each to one vector (Mistral Small 3.1, 2025).

    x (I,R*C,W) of pixel_values (I,channels,height,width) -> y (I,R*C/merged²,W).
    """
    x = norm(spec.norm, g / "norm", x)
    y = linear(
        False, g / "project", g.call(unfolded(patch_size, spec.merged), x, pixel_values, name="unfolded")
    )
    return y


@cache
def unfolded(patch_size: int, merged: int) -> OnnxFunction:
    """x (I,R*C,W) -> y (I,R*C/merged²,W*merged²): the neighbours of a square side by side for each number."""

    @script(domain, default_opset=op)
    def unfolded(x, pixel_values):
        side = op.Constant(value_ints=[merged])
        sides = op.Shape(pixel_values, start=2) / op.Constant(value_ints=[patch_size]) / side  # (2)
        rows, columns = op.Split(sides, op.Constant(value_ints=[1, 1]))
        same, rest = op.Constant(value_ints=[0]), op.Constant(value_ints=[-1])
        apart = op.Reshape(x, op.Concat(same, rows, side, columns, side, rest, axis=0))
        turned = op.Transpose(apart, perm=[0, 1, 3, 5, 2, 4])  # (I, R/merged, C/merged, W, merged, merged)
        wide = op.Shape(x, start=2) * side * side
        y = op.Reshape(turned, op.Concat(same, rest, wide, axis=0))
        return y

    return unfolded
