"""Vectors of an image's tiles as one map (anyres), for a decoder that reads them row by row."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import MosaicSpec
from txgraphs import domain, op
from txgraphs._component import Body, component


@component("y")
def mosaic(spec: MosaicSpec, g: Body, features: ir.Value, tile_grid: ir.Value) -> ir.Value:
    """The whole image, then its tiles without padding, each row ended by a vector (Liu et al. 2024).

    Of one image the vectors of all tiles (T,N,W), the whole first, and tile_grid (1,6) -> y (M,W).
    """
    op = g.op
    zero, one, axes = (op.Constant(value_ints=ints) for ints in ([0], [1], [0, 1]))
    grid = op.Reshape(tile_grid, op.Constant(value_ints=[6]))
    numbers = ["rows", "columns", "high", "wide", "shorter", "narrower"]
    rows, columns, high, wide, *last = op.Split(grid, op.Constant(value_ints=[1] * 6), axis=0, name=numbers)
    tiles = op.Slice(features, one, op.Shape(features, start=0, end=1), zero)
    x = g.call(tiles_as_map(spec.side), tiles, rows, columns, name="x")  # (R, C, W)
    sides = op.Concat(high, wide, axis=0)
    starts = op.Div(op.Sub(op.Shape(x, start=0, end=2), sides), op.Constant(value_ints=[2]))
    x = op.Slice(x, starts, op.Add(starts, sides), axes)
    if spec.most is not None:
        shorter = g.call(reduced, x, last[0], name="lines_reduced")
        narrower = g.call(reduced, op.Transpose(shorter, perm=[1, 0, 2]), last[1], name="columns_reduced")
        x = op.Transpose(narrower, perm=[1, 0, 2])
    width = op.Shape(features, start=2, end=3)
    ends = op.Expand(g.weight("newline"), op.Concat(op.Shape(x, start=0, end=1), one, width, axis=0))
    lines = op.Reshape(op.Concat(x, ends, axis=1), op.Concat(op.Constant(value_ints=[-1]), width, axis=0))
    overview = op.Squeeze(op.Slice(features, zero, one, zero), zero)
    y: ir.Value = op.Concat(overview, lines, axis=0)
    return y


@cache
def tiles_as_map(side: int) -> OnnxFunction:
    """Vectors of tiles, row by row (T,side*side,W) -> one map of them (rows*side,columns*side,W)."""

    @script(domain, default_opset=op)
    def tiles_as_map(tiles, rows, columns):
        of_tile, width = op.Constant(value_ints=[side]), op.Shape(tiles, start=2, end=3)
        shape = op.Concat(rows, columns, of_tile, of_tile, width, axis=0)
        apart = op.Transpose(op.Reshape(tiles, shape, allowzero=1), perm=[0, 2, 1, 3, 4])
        sides = op.Concat(rows * of_tile, columns * of_tile, width, axis=0)
        y = op.Reshape(apart, sides, allowzero=1)
        return y

    return tiles_as_map


@script(domain, default_opset=op)
def reduced(x, size):
    """x (R,C,W) -> (size,C,W): linear interpolation between rows, of which the centres are evenly spread."""
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    half, behind = op.Constant(value_float=0.5), op.Constant(value_ints=[1, 2])
    count = op.Shape(x, start=0, end=1)
    scale = op.CastLike(count, x) / op.CastLike(size, x)
    numbers = op.CastLike(op.Range(zero, op.Squeeze(size), one), x)
    middle = op.CastLike(half, x)
    rows = op.Max((numbers + middle) * scale - middle, op.CastLike(zero, x))  # (size)
    first = op.Cast(op.Floor(rows), to=7)
    second = op.Min(first + one, count - one)
    share = op.Unsqueeze(rows - op.Floor(rows), behind)
    y = op.Gather(x, first, axis=0) * (op.CastLike(one, x) - share) + op.Gather(x, second, axis=0) * share
    return y
