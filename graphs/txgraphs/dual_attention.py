"""Images as vectors: stages of attention within windows and between channels."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import DualStageSpec, NormSpec, PicturesSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._graph import Graph
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.scaled_dot_product_attention import plain_mix
from txgraphs.window_attention import whole_windows, window_grid, window_parts, window_rows


@component("y")
def plain_window_attention(spec: DualStageSpec, window: int, bias: bool, g: Body, x: ir.Value) -> ir.Value:
    """Attention of every vector to its window, without positions (Ding et al. 2022, 3.2).

    x (B,R,C,W) -> y (B,R,C,W); zeros fill the grid to whole windows, and are attended to.
    """
    op, head_dim = g.op, spec.hidden_size // spec.num_heads
    padded = g.call(whole_windows(window), x)  # (B, R', C', W)
    parts, together = g.call(window_parts(window, spec.num_heads, head_dim), padded)
    shape = op.Constant(value_ints=[-1, spec.num_heads, window**2, head_dim])
    q, k, v = (
        g.call(window_rows, op.Reshape(linear(bias, g / name, padded), parts), shape) for name in "qkv"
    )  # (B*M, N, T, H)
    heads = g.call(plain_mix, q, k, v, scale=head_dim**-0.5)
    mixed = g.call(window_grid, heads, together, padded)  # (B, R', C', W)
    start, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[1, 2])
    y = linear(True, g / "o", op.Slice(mixed, start, op.Shape(x, start=1, end=3), axes))
    return y


@component("y")
def channel_attention(spec: DualStageSpec, bias: bool, g: Body, x: ir.Value) -> ir.Value:
    """Attention of every channel to those of its group, over all places (Ding et al. 2022, 3.3).

    x (B,R,C,W) -> y (B,R,C,W).
    """
    q, k, v = (linear(bias, g / name, x) for name in "qkv")
    mixed = g.call(channel_mix(spec.num_groups), q, k, v)  # (B, R, C, W)
    y = linear(True, g / "o", mixed)
    return y


@cache
def channel_mix(groups: int) -> OnnxFunction:
    """q, k and v (B,R,C,W) -> mixed (B,R,C,W)."""

    @script(domain, default_opset=op)
    def channel_mix(q, k, v):
        shape = op.Constant(value_ints=[0, -1, groups])
        width = op.Shape(q, start=3) / op.Constant(value_ints=[groups])
        apart = op.Concat(shape, width, axis=0)
        queries = op.Transpose(op.Reshape(q, apart), perm=[0, 2, 3, 1])  # (B, G, W/G, S)
        keys = op.Transpose(op.Reshape(k, apart), perm=[0, 2, 1, 3])  # (B, G, S, W/G)
        values = op.Transpose(op.Reshape(v, apart), perm=[0, 2, 3, 1])
        count = op.CastLike(op.Shape(queries, start=3), q)
        weights = op.Softmax(op.MatMul(queries / op.Sqrt(count), keys), axis=-1)  # (B, G, W/G, W/G)
        mixed = op.Reshape(op.Transpose(op.MatMul(weights, values), perm=[0, 3, 1, 2]), op.Shape(q))
        return mixed

    return channel_mix


@component("y")
def dual_layer(
    spec: DualStageSpec, window: int | None, bias: bool, normed: NormSpec, g: Body, x: ir.Value
) -> ir.Value:
    """Attention, then feed-forward, each behind a convolution of its own (Ding et al. 2022, 3.4).

    Attention is within windows of `window` by `window`, or between channels without one. x (B,R,C,W) -> y.
    """
    x = g.op.Add(x, _convolved(g, "position", x, 1, 1, spec.hidden_size))
    first = norm(normed, g / "attention_norm", x)
    if window is not None:
        attended = plain_window_attention(spec, window, bias, g / "attention", first)
    else:
        attended = channel_attention(spec, bias, g / "attention", first)
    x = g.op.Add(x, attended)
    x = g.op.Add(x, _convolved(g, "second_position", x, 1, 1, spec.hidden_size))
    second = norm(normed, g / "feed_forward_norm", x)
    y = g.op.Add(x, feed_forward(spec.feed_forward, g / "feed_forward", second))
    return y


@component("y")
def dual_merging(spec: DualStageSpec, g: Body, x: ir.Value) -> ir.Value:
    """A convolution to a grid of fewer vectors, with a norm before or behind it (Ding et al. 2022, 3.4).

    x (B,r,c,inputs) -> y (B,R,C,W), R and C divided by the stride and rounded up.
    """
    read = x if spec.norm_last else norm(spec.norm, g / "norm", x)
    y = _convolved(g, "project", read, spec.kernel // 2, spec.stride)
    if spec.norm_last:
        y = norm(spec.norm, g / "norm", y)
    return y


def pictures(spec: PicturesSpec, graph: Graph, pixel_values: ir.Value) -> ir.Value:
    """Images as vectors in the places of tokens (Xiao et al. 2024, 4); the twin of txmodels' Pictures.

    pixel_values (I,channels,height,width) -> features (I,1+R*C,size): the mean, then every place.
    """
    x = graph.op.Transpose(pixel_values, perm=[0, 2, 3, 1])
    number = 0
    for place, stage in enumerate(spec.stages):
        x = dual_merging(stage, graph / f"pictures.mergings.{place}", x)  # (I, R, C, W)
        normed = NormSpec(stage.hidden_size, spec.layer_norm)
        for layer in range(2 * stage.num_layers):
            window = None if layer % 2 else spec.window
            x = dual_layer(stage, window, spec.bias, normed, graph / f"pictures.layers.{number}", x)
            number += 1
    features: ir.Value = picture_vectors(spec, graph / "pictures.vectors", x)
    return features


@component("features")
def picture_vectors(spec: PicturesSpec, g: Body, x: ir.Value) -> ir.Value:
    """Positions, the mean before all vectors, and the projection to those of tokens (Xiao et al. 2024, 4).

    x (I,R,C,W) -> features (I,1+R*C,size).
    """
    weights = g.weight("row.weight"), g.weight("column.weight"), g.weight("moment.weight")
    every = g.call(positioned, x, *weights)  # (I, 1+R*C, W)
    features = norm(spec.norm, g / "norm", linear(False, g / "project", every))
    return features


@script(domain, default_opset=op)
def positioned(x, row, column, moment):
    """x (I,R,C,W), row (P,W/2), column (P,W/2), moment (M,W) -> every (I,1+R*C,W)."""
    zero, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    rows, columns = op.Shape(x, start=1, end=2), op.Shape(x, start=2, end=3)
    start, step = op.Constant(value_int=0), op.Constant(value_int=1)
    across = op.Gather(column, op.Range(start, op.Squeeze(columns), step))  # (C, W/2)
    down = op.Gather(row, op.Range(start, op.Squeeze(rows), step))  # (R, W/2)
    both = op.Concat(rows, columns, op.Constant(value_ints=[1]), axis=0)
    wide = op.Expand(op.Unsqueeze(across, zero), both)  # (R, C, W/2)
    high = op.Expand(op.Unsqueeze(down, one), both)
    placed = x + op.Concat(wide, high, axis=-1)
    shape = op.Concat(op.Shape(x, start=0, end=1), op.Constant(value_ints=[-1]), op.Shape(x, start=3), axis=0)
    flat = op.Reshape(placed, shape) + op.Gather(moment, start)  # (I, S, W)
    count = op.CastLike(op.Shape(flat, start=1, end=2), flat)
    mean = op.ReduceSum(flat, one, keepdims=1) / count  # (I, 1, W)
    every = op.Concat(mean, flat, axis=1)
    return every


def _convolved(g: Body, name: str, x: ir.Value, around: int, stride: int, groups: int = 1) -> ir.Value:
    """x (B,r,c,inputs) -> y (B,R,C,W)."""
    op, weights = g.op, (g.weight(f"{name}.weight"), g.weight(f"{name}.bias"))
    channels = op.Transpose(x, perm=[0, 3, 1, 2])
    grid = op.Conv(channels, *weights, pads=[around] * 4, strides=[stride] * 2, group=groups)
    y: ir.Value = op.Transpose(grid, perm=[0, 2, 3, 1])
    return y
