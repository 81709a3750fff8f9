"""The grid of an image's patches."""

import onnx_ir as ir

from txgraphs._component import Body


def patch_counts(side: int, g: Body, pixel_values: ir.Value) -> ir.Value:
    """pixel_values (B,channels,height,width) -> rows, columns (2) of whole patches of `side` pixels."""
    op = g.op
    grid: ir.Value = op.Div(op.Shape(pixel_values, start=2), op.Constant(value_ints=[side] * 2))
    return grid
