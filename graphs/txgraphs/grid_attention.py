"""Attention over a grid, or windows of it, with learned vectors of the distances in rows and columns."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import GridAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.scaled_dot_product_attention import plain_mix
from txgraphs.window_attention import whole_windows, window_grid, window_parts, window_rows


@component("y")
def grid_attention(spec: GridAttentionSpec, g: Body, x: ir.Value) -> ir.Value:
    """Attention of every vector to its grid or window (Li et al. 2022, 3; Li et al. 2021, 4.1).

    x (B,R,C,W) -> y (B,R,C,W); N heads of H numbers, T vectors in a window or in the grid.
    """
    op, padded, together = g.op, x, None
    if spec.windowed:
        padded = g.call(whole_windows(spec.rows), x)  # (B, R', C', W)
        parts, together = g.call(window_parts(spec.rows, spec.num_heads, spec.head_dim), padded)
        shape = op.Constant(value_ints=[-1, spec.num_heads, spec.size, spec.head_dim])
    heads = op.Constant(value_ints=[0, -1, spec.num_heads, spec.head_dim])

    def project(name: str) -> ir.Value:
        projected = linear(spec.bias, g / name, padded)
        if not spec.windowed:
            return g.call(split, projected, heads)
        return g.call(window_rows, op.Reshape(projected, parts), shape)

    q, k, v = project("q"), project("k"), project("v")  # (B*M, N, T, H)
    scaled = op.Mul(q, op.CastLike(op.Constant(value_float=spec.head_dim**-0.5), q))
    if spec.relative:
        positions = g.weight("row_position.weight"), g.weight("column_position.weight")
        scaled, k = g.call(with_distances(spec), q, scaled, k, *positions)
    mixed = g.call(plain_mix, scaled, k, v, scale=1.0)  # (B*M, N, T, H)
    if together is None:
        return op.Reshape(linear(True, g / "o", g.call(merge, mixed)), op.Shape(x), name="grid")
    grid = g.call(window_grid, mixed, together, padded)
    start, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[1, 2])
    cut = op.Slice(grid, start, op.Shape(x, start=1, end=3), axes, name="cut")
    return linear(True, g / "o", cut)


@cache
def with_distances(spec: GridAttentionSpec) -> OnnxFunction:
    """Queries and keys whose products have the terms of distances in rows and columns.

    q, scaled and k (B,N,T,H), row_position (2R-1,H), column_position (2C-1,H) -> queries and keys
    (B,N,T,H+R+C): a query's numbers are followed by its products with the vectors of every row and column,
    a key's by a 1 for its own row and for its own column.
    """
    rows, columns, size = spec.rows, spec.columns, spec.size
    down = [row - key + rows - 1 for row in range(rows) for key in range(rows)]
    across = [column - key + columns - 1 for column in range(columns) for key in range(columns)]
    grid_shape = [-1, rows, columns, spec.head_dim]
    row_shape, column_shape = [rows, rows, spec.head_dim], [columns, columns, spec.head_dim]
    flat = [-1, spec.num_heads, size, rows], [-1, spec.num_heads, size, columns]
    flat_rows, flat_columns = flat

    @script(domain, default_opset=op)
    def with_distances(q, scaled, k, row_position, column_position):
        grid = op.Reshape(q, op.Constant(value_ints=grid_shape))  # (B*N, R, C, H)
        rows_of = op.Reshape(
            op.Gather(row_position, op.Constant(value_ints=down)), op.Constant(value_ints=row_shape)
        )
        by_row = op.MatMul(grid, op.Transpose(rows_of, perm=[0, 2, 1]))  # (B*N, R, C, R)
        columns_of = op.Reshape(
            op.Gather(column_position, op.Constant(value_ints=across)), op.Constant(value_ints=column_shape)
        )
        turned = op.Transpose(grid, perm=[0, 2, 1, 3])  # (B*N, C, R, H)
        by_column = op.MatMul(turned, op.Transpose(columns_of, perm=[0, 2, 1]))  # (B*N, C, R, C)
        behind = op.Reshape(op.Transpose(by_column, perm=[0, 2, 1, 3]), op.Constant(value_ints=flat_columns))
        queries = op.Concat(scaled, op.Reshape(by_row, op.Constant(value_ints=flat_rows)), behind, axis=3)
        zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
        order = op.Range(zero, op.Constant(value_int=size), one)  # (T)
        row = op.OneHot(
            order / op.Constant(value_int=columns),
            op.Constant(value_int=rows),
            op.Constant(value=float32([0.0, 1.0])),
        )
        column = op.OneHot(
            op.Mod(order, op.Constant(value_int=columns)),
            op.Constant(value_int=columns),
            op.Constant(value=float32([0.0, 1.0])),
        )
        indicators = op.CastLike(op.Concat(row, column, axis=1), k)  # (T, R + C)
        shape = op.Concat(op.Shape(k, end=2), op.Shape(indicators), axis=0)
        keys = op.Concat(k, op.Expand(indicators, shape), axis=3)
        return queries, keys

    return with_distances
