"""Patches of images of any shape (Tschannen et al. 2025, 2.4.2)."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import NaflexSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.linear import linear


@component("x", "mask")
def naflex_embedding(
    spec: NaflexSpec,
    g: Body,
    pixel_values: ir.Value,
    attention_mask: ir.Value,
    spatial_shapes: ir.Value,
) -> tuple[ir.Value, ir.Value]:
    """Patches of images of any shape, projected, plus positions interpolated to each shape.

    pixel_values (B,P,numbers), attention_mask (B,P), spatial_shapes (B,2) -> x (B,P,W), mask (B,P).
    """
    op = g.op
    count = op.Shape(pixel_values, start=1, end=2)  # (1)
    shares = g.call(position_shares(spec.side), spatial_shapes, count)  # (B, P, side * side)
    table = g.weight("position.weight")
    position = op.MatMul(op.CastLike(shares, table), table, name="position")  # (B, P, W)
    x = op.Add(linear(True, g / "project", pixel_values), position)
    return x, op.Identity(attention_mask)


@cache
def position_shares(side: int) -> OnnxFunction:
    """spatial_shapes (B,2), count (1): P -> the share of each position in that of each patch (B,P,side*side).

    Shares are linear in the distance of rows and of columns, over at least one position and as many as a
    patch spans, and add up to 1: bilinear with antialias. Padding has those of the first patch.
    """

    @script(domain, default_opset=op)
    def position_shares(spatial_shapes, count):
        zero, one, two = (
            op.Constant(value_ints=[0]),
            op.Constant(value_ints=[1]),
            op.Constant(value_ints=[2]),
        )
        half, unit = op.Constant(value=float32(0.5)), op.Constant(value=float32(1.0))
        rows = op.Slice(spatial_shapes, zero, one, one)  # (B, 1)
        columns = op.Slice(spatial_shapes, one, two, one)  # (B, 1)
        number = op.Range(op.Constant(value_int=0), op.Squeeze(count), op.Constant(value_int=1))  # (P)
        row = number / columns  # (B, P)
        column = number - row * columns
        inside = op.Less(number, rows * columns)  # (B, P)
        where = op.Concat(op.Unsqueeze(row, two), op.Unsqueeze(column, two), axis=2)  # (B, P, 2)
        where = op.Where(op.Unsqueeze(inside, two), where, zero)
        size = op.Cast(op.Unsqueeze(spatial_shapes, one), to=1)  # (B, 1, 2)
        scale = op.Cast(op.Constant(value_int=side), to=1) / size
        centre = (op.Cast(where, to=1) + half) * scale - half  # (B, P, 2)
        grid = op.Range(op.Constant(value_int=0), op.Constant(value_int=side), op.Constant(value_int=1))
        away = op.Abs(op.Cast(grid, to=1) - op.Unsqueeze(centre, op.Constant(value_ints=[3])))
        support = op.Unsqueeze(op.Max(scale, unit), op.Constant(value_ints=[3]))
        near = op.Relu(unit - away / support)  # (B, P, 2, side)
        share = near / op.ReduceSum(near, op.Constant(value_ints=[3]), keepdims=1)
        down = op.Unsqueeze(op.Gather(share, op.Constant(value_int=0), axis=2), op.Constant(value_ints=[3]))
        across = op.Unsqueeze(op.Gather(share, op.Constant(value_int=1), axis=2), two)  # (B, P, 1, side)
        shares = op.Reshape(down * across, op.Constant(value_ints=[0, 0, -1]))
        return shares

    return position_shares


embedding = naflex_embedding
