"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import DepthSpec, HeadSpec, StagedDepthSpec
from txgraphs._component import Body, component
from txgraphs._nodes import Place
from txgraphs.bilinear import bilinear
from txgraphs.feature_fusion import AROUND, convolution, corner_aligned, feature_maps
from txgraphs.selective_fusion import selective_fusion


@component("depth")
def depth_head(spec: DepthSpec, g: Body, states: dict[str, ir.Value], pixel_values: ir.Value) -> ir.Value:
    """Depth of every pixel, from the states of several layers (Ranftl et al. 2021, 3.1).

    states (B,S,W), pixel_values (B,channels,height,width) -> depth (B,height,width). Pixels beyond the last
    whole patch are left out; where maps double, the depth has twice the rows and columns of the fused one.
    """
    op, side = g.op, g.op.Constant(value_ints=[spec.fusion.patch_size] * 2)
    grid = op.Div(op.Shape(pixel_values, start=2), side)  # (2)
    x = feature_maps(spec.fusion, g / "neck", states, grid)
    if spec.projected:
        x = op.Relu(convolution(g, "projection", x, pads=AROUND))
    x = convolution(g, "halve", x, pads=AROUND)
    if spec.fusion.doubling:
        x = g.call(corner_aligned, x, op.Mul(op.Shape(x, start=2), op.Constant(value_ints=[2])))
    else:
        x = g.call(corner_aligned, x, op.Mul(grid, side))
    x = op.Relu(convolution(g, "convolve", x, pads=AROUND))
    x = convolution(g, "project", x)  # (B, 1, height, width)
    x = op.Sigmoid(x) if spec.metric else op.Relu(x)
    depth = op.Squeeze(x, op.Constant(value_ints=[1]))
    if spec.max_depth != 1:
        depth = op.Mul(depth, op.CastLike(op.Constant(value_float=spec.max_depth), depth))
    return depth


@component("depth")
def staged_depth_head(spec: StagedDepthSpec, g: Body, maps: dict[str, ir.Value]) -> ir.Value:
    """Depth of every pixel, from the maps of all stages (Kim et al. 2022, 3.2).

    maps (B,R,C,W), the finest first -> depth (B,4R,4C), of the finest one's places.
    """
    op, x = g.op, None
    for number in range(len(spec.sizes) - 1, -1, -1):
        y = op.Transpose(maps[str(number)], perm=[0, 3, 1, 2])  # (B, W, R, C)
        if spec.sizes[number] != spec.size:
            y = convolution(g, f"projects.{number}", y)
        if x is not None:
            y = selective_fusion(spec, g / f"fusions.{number}", y, x)
        x = _doubled(g, y)
    assert x is not None
    x = op.Relu(convolution(g, "convolve", _doubled(g, x), pads=AROUND))
    x = op.Sigmoid(convolution(g, "depth", x, pads=AROUND))  # (B, 1, 4R, 4C)
    depth = op.Squeeze(x, op.Constant(value_ints=[1]))
    if spec.max_depth != 1:
        depth = op.Mul(depth, op.CastLike(op.Constant(value_float=spec.max_depth), depth))
    return depth


def _doubled(g: Body, x: ir.Value) -> ir.Value:
    """x (B,F,R,C) -> (B,F,2R,2C), bilinear between the centres of places."""
    op = g.op
    double = op.Mul(op.Shape(x, start=2), op.Constant(value_ints=[2]))
    y: ir.Value = g.call(bilinear, x, double)
    return y


def outputs_of_maps(
    spec: HeadSpec, place: Place, x: ir.Value, maps: dict[str, ir.Value]
) -> dict[str, ir.Value]:
    """The graph's output: predicted_depth (B,4R,4C)."""
    assert isinstance(spec.depth, StagedDepthSpec)
    return {names.PREDICTED_DEPTH: staged_depth_head(spec.depth, place, maps)}
