"""From one stage of a stack to the next: a quarter of the vectors, each of four."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import ConvolvedMergingSpec, MergingSpec, QueryPoolingSpec, StageMergingSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._nodes import Nodes
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.query_pooling import query_pooling


@component("y")
def patch_merging(spec: MergingSpec, g: Body, x: ir.Value) -> ir.Value:
    """Squares of four vectors, side by side, projected (Liu et al. 2021, 3.1).

    x (B,R,C,W) -> y (B,R/2,C/2,size), R/2 and C/2 rounded up; odd grids are padded by zeros.
    """
    joined = g.call(squares, x)  # (B, R/2, C/2, 4W)
    if spec.norm_last:
        return norm(spec.norm, g / "norm", linear(False, g / "project", joined))
    return linear(False, g / "project", norm(spec.norm, g / "norm", joined))


@component("y")
def convolved_merging(spec: ConvolvedMergingSpec, g: Body, x: ir.Value) -> ir.Value:
    """Vectors and those around them, convolved to fewer (Xie et al. 2021, 3.1).

    x (B,R,C,W) -> y (B,R/stride,C/stride,size), rounded up.
    """
    op, around = g.op, [spec.kernel // 2] * 4
    weights, channels = (
        (g.weight("project.weight"), g.weight("project.bias")),
        op.Transpose(x, perm=[0, 3, 1, 2]),
    )
    grid = op.Conv(channels, *weights, pads=around, strides=[spec.stride] * 2, name="grid")
    y = norm(spec.norm, g / "norm", op.Transpose(grid, perm=[0, 2, 3, 1]))
    return y


def merging(spec: StageMergingSpec, g: Nodes, x: ir.Value) -> ir.Value:
    """The merging between two stages, or the layer that pools."""
    if isinstance(spec, QueryPoolingSpec):
        y: ir.Value = query_pooling(spec, g, x)
        return y
    merged: ir.Value = (
        patch_merging(spec, g, x) if isinstance(spec, MergingSpec) else convolved_merging(spec, g, x)
    )
    return merged


@script(domain, default_opset=op)
def squares(x):
    """x (B,R,C,W) -> (B,R/2,C/2,4W): top left, bottom left, top right, bottom right."""
    two, zeros = op.Constant(value_ints=[2]), op.Constant(value_ints=[0, 0, 0, 0, 0])
    size = op.Shape(x, start=1, end=3)
    missing = op.Mod(size, two)  # (2)
    padded = op.Pad(x, op.Concat(zeros, missing, op.Constant(value_ints=[0]), axis=0))
    down = op.Shape(padded, start=1, end=2) / two
    across = op.Shape(padded, start=2, end=3) / two
    first, rest = op.Constant(value_ints=[0]), op.Constant(value_ints=[-1])
    apart = op.Reshape(padded, op.Concat(first, down, two, across, two, rest, axis=0))
    together = op.Transpose(apart, perm=[0, 1, 3, 4, 2, 5])  # (B, R/2, C/2, 2, 2, W)
    y = op.Reshape(together, op.Concat(first, down, across, rest, axis=0))
    return y
