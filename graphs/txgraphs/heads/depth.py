"""Depth of every pixel of an image (Ranftl et al. 2021, 3.1)."""

import onnx_ir as ir

from txexport.spec import DepthSpec
from txgraphs._component import Body, component
from txgraphs.feature_fusion import AROUND, convolution, corner_aligned, feature_maps


@component("depth")
def depth_head(spec: DepthSpec, g: Body, states: dict[str, ir.Value], pixel_values: ir.Value) -> ir.Value:
    """Depth of every pixel, from the states of several layers (Ranftl et al. 2021, 3.1).

    states (B,S,W), pixel_values (B,channels,height,width) -> depth (B,height,width). Pixels beyond the last
    whole patch are left out.
    """
    op, side = g.op, g.op.Constant(value_ints=[spec.fusion.patch_size] * 2)
    grid = op.Div(op.Shape(pixel_values, start=2), side)  # (2)
    x = feature_maps(spec.fusion, g / "neck", states, grid)
    x = g.call(corner_aligned, convolution(g, "halve", x, pads=AROUND), op.Mul(grid, side))
    x = op.Relu(convolution(g, "convolve", x, pads=AROUND))
    x = convolution(g, "project", x)  # (B, 1, height, width)
    x = op.Sigmoid(x) if spec.metric else op.Relu(x)
    depth = op.Squeeze(x, op.Constant(value_ints=[1]))
    if spec.max_depth != 1:
        depth = op.Mul(depth, op.CastLike(op.Constant(value_float=spec.max_depth), depth))
    return depth
