"""Heat maps of the points of a body (Xu et al. 2022, 3.1)."""

import onnx_ir as ir

from txexport.spec import PoseSpec
from txgraphs._component import Body, component
from txgraphs.batch_norm import batch_norm
from txgraphs.bilinear import bilinear
from txgraphs.feature_fusion import AROUND, convolution
from txgraphs.heads._grid import patch_counts


@component("heatmaps")
def pose_head(spec: PoseSpec, g: Body, states: dict[str, ir.Value], pixel_values: ir.Value) -> ir.Value:
    """A heat map for each point, from the patches of one state (Xu et al. 2022, 3.1 and 3.2).

    states (B,S,W), pixel_values (B,channels,height,width) -> heatmaps (B,points,factor R,factor C), of R rows
    and C columns of patches.
    """
    op, (x,) = g.op, states.values()
    if spec.tokens:
        first, axis = op.Constant(value_ints=[spec.tokens]), op.Constant(value_ints=[1])
        x = op.Slice(x, first, op.Shape(x, start=1, end=2), axis)
    channels = op.Transpose(x, perm=[0, 2, 1], name="patches")  # (B, W, R * C)
    grid = patch_counts(spec.patch_size, g, pixel_values)
    x = op.Reshape(channels, op.Concat(op.Shape(channels, end=2), grid, axis=0))  # (B, W, R, C)
    if spec.norm is None:
        size = op.Mul(grid, op.Constant(value_ints=[spec.factor] * 2))
        return convolution(g, "project", g.call(bilinear, op.Relu(x), size), pads=AROUND)
    for part in ("first", "second"):
        x = op.ConvTranspose(x, g.weight(f"{part}.weight"), strides=[2, 2], pads=AROUND, name=part)
        x = op.Relu(batch_norm(spec.norm, g / f"{part}_norm", x))
    heatmaps = convolution(g, "project", x)
    return heatmaps
