"""Patches of images of any size, of all images in one row (Wang et al. 2024, 2.1)."""

import onnx_ir as ir

from txexport.spec import PackedSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.packed import grid_positions


@component("x")
def packed_embedding(
    spec: PackedSpec, g: Body, pixel_values: ir.Value, coordinates: ir.Value, sides: ir.Value
) -> ir.Value:
    """Patches of images of any size, projected, plus positions interpolated to each size if there are any.

    pixel_values (N,numbers), coordinates and sides (2,1,N) of patches -> x (1,N,W).
    """
    patches = g.op.Unsqueeze(pixel_values, g.op.Constant(value_ints=[0]))  # (1, N, numbers)
    x = linear(spec.bias, g / "project", patches)
    if spec.side:
        position = g.call(grid_positions(spec.side), coordinates, sides, g.weight("position.weight"))
        x = g.op.Add(x, position)
    return x


embedding = packed_embedding
