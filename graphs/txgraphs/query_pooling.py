"""A layer between two stages that makes a grid smaller by pooling the queries of its attention."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import QueryPoolingSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.scaled_dot_product_attention import plain_mix
from txgraphs.window_attention import whole_windows, window_grid, window_parts, window_rows


@component("y")
def pooled_attention(spec: QueryPoolingSpec, g: Body, x: ir.Value) -> ir.Value:
    """Attention within windows, of one query for each square of vectors (Fan et al. 2021, 3.1).

    x (B,R,C,W) -> y (B,R/stride,C/stride,size); N heads of H numbers in each of M windows.
    """
    if spec.everywhere:
        return _everywhere(spec, g, x)
    op, window, heads = g.op, spec.window, (spec.num_heads, spec.head_dim)
    inner = window // spec.stride
    padded = g.call(whole_windows(window), x)  # (B, R', C', W)
    pooled = g.call(largest(spec.stride), linear(True, g / "q", padded), name="pooled")
    parts, together = g.call(window_parts(inner, *heads), pooled)
    shape = op.Constant(value_ints=[-1, spec.num_heads, inner**2, spec.head_dim])
    q = g.call(window_rows, op.Reshape(pooled, parts), shape)  # (B*M, N, T/stride**2, H)
    parts, _ = g.call(window_parts(window, *heads), padded)
    shape = op.Constant(value_ints=[-1, spec.num_heads, window**2, spec.head_dim])
    k, v = (
        g.call(window_rows, op.Reshape(linear(True, g / name, padded), parts), shape) for name in ("k", "v")
    )  # (B*M, N, T, H)
    mixed = g.call(plain_mix, q, k, v, scale=spec.head_dim**-0.5)
    grid = g.call(window_grid, mixed, together, pooled)
    start, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[1, 2])
    size = op.Div(op.Shape(x, start=1, end=3), op.Constant(value_ints=[spec.stride]))
    return linear(True, g / "o", op.Slice(grid, start, size, axes, name="cut"))


def _everywhere(spec: QueryPoolingSpec, g: Body, x: ir.Value) -> ir.Value:
    """As `pooled_attention`, of one window: the grid."""
    op, heads = g.op, g.op.Constant(value_ints=[0, -1, spec.num_heads, spec.head_dim])
    pooled = g.call(largest(spec.stride), linear(True, g / "q", x), name="pooled")
    parts = pooled, linear(True, g / "k", x), linear(True, g / "v", x)
    q, k, v = (g.call(split, part, heads) for part in parts)  # (B, N, T, H)
    mixed = g.call(merge, g.call(plain_mix, q, k, v, scale=spec.head_dim**-0.5))
    y = op.Reshape(linear(True, g / "o", mixed), op.Shape(pooled))  # (B, R/stride, C/stride, size)
    return y


@component("y")
def query_pooling(spec: QueryPoolingSpec, g: Body, x: ir.Value) -> ir.Value:
    """Attention of pooled queries, then feed-forward, each in its residual and norm (Ryali et al. 2023).

    x (B,R,C,W) -> y (B,R/stride,C/stride,size).
    """
    inner = norm(spec.norm, g / "attention_norm", x)
    residual = g.call(largest(spec.stride), linear(True, g / "project", inner), name="residual")
    attended = g.op.Add(residual, pooled_attention(spec, g / "attention", inner), name="attended")
    normed = norm(spec.last_norm, g / "feed_forward_norm", attended)
    y = g.op.Add(attended, feed_forward(spec.feed_forward, g / "feed_forward", normed))
    return y


@cache
def largest(stride: int) -> OnnxFunction:
    """x (B,R,C,W) -> the largest numbers of every square of `stride` by `stride` (B,R/stride,C/stride,W)."""
    sides = [stride, stride]

    @script(domain, default_opset=op)
    def largest(x):
        pooled = op.MaxPool(op.Transpose(x, perm=[0, 3, 1, 2]), kernel_shape=sides, strides=sides)
        y = op.Transpose(pooled, perm=[0, 2, 3, 1])
        return y

    return largest
