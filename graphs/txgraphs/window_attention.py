"""Multi-head attention within windows of a grid."""

import math
from functools import cache

import numpy as np
import onnx
import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import WindowAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.scaled_dot_product_attention import biased_mix

LEAST = 1e-12  # length that a vector is divided by
LEAST_OF_HALF = 2.0**-14  # the same in float16, which has no smaller numbers of full precision


@component("y")
def window_attention(
    spec: WindowAttentionSpec,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    rows: ir.Value | None,
    columns: ir.Value | None,
    own_rows: ir.Value | None,
    own_columns: ir.Value | None,
) -> ir.Value:
    """Attention of every vector to its window (Liu et al. 2021, 3.2); by cosines (Liu et al. 2022, 3.2).

    x (B,R,C,W) -> y (B,R,C,W); T vectors in each of M windows. Of shifted windows, `window_shift` gives mask
    (M,1,T,T), rows (R'), columns (C'), own_rows (R) and own_columns (C) for the padded grid (R',C').
    """
    op, shifted = g.op, mask is not None
    padded = g.call(whole_windows(spec.window), x)  # (B, R', C', W)
    if shifted:
        padded = op.Gather(op.Gather(padded, rows, axis=1), columns, axis=2, name="turned")
    parts, together = g.call(window_parts(spec.window, spec.num_heads, spec.head_dim), padded)
    # A mask is the same for all rows of a batch: the windows of a row are then heads of one row.
    each = [0, -1, spec.size, spec.head_dim] if shifted else [-1, spec.num_heads, spec.size, spec.head_dim]
    shape = op.Constant(value_ints=each)
    q, k, v = (
        op.Reshape(linear(bias, g / name, padded), parts)  # (B, R'/w, w, C'/w, w, N, H)
        for name, bias in (("q", spec.bias), ("k", spec.key_bias), ("v", spec.bias))
    )
    scale = spec.head_dim**-0.5
    if spec.cosine is not None:
        least = LEAST_OF_HALF if g.dtype == ir.DataType.FLOAT16 else LEAST
        largest = op.Constant(value_float=math.log(spec.cosine.largest_scale))
        q = g.call(_scaled_unit(least), q, g.weight("scale"), largest)
        k, scale = g.call(_unit_heads(least), k), 1.0
    q, k, v = (g.call(window_rows, part, shape) for part in (q, k, v))  # (B*M, N, T, H) or (B, M*N, T, H)
    biases = _continuous_bias(spec, g) if spec.cosine is not None else g.weight("relative.weight")  # (P, N)
    bias = g.call(pair_bias(spec.window), biases)  # (1, N, T, T)
    if shifted:
        every = op.Constant(value_ints=[1, -1, spec.size, spec.size])
        bias = op.Reshape(op.Add(bias, mask), every, name="bias")  # (1, M*N, T, T)
    heads = g.call(biased_mix, q, k, v, bias, scale=scale)
    mixed = g.call(window_grid, heads, together, padded)  # (B, R', C', W)
    if shifted:
        mixed = op.Gather(op.Gather(mixed, own_rows, axis=1), own_columns, axis=2, name="own")
    else:
        start, axes = op.Constant(value_ints=[0, 0]), op.Constant(value_ints=[1, 2])
        mixed = op.Slice(mixed, start, op.Shape(x, start=1, end=3), axes, name="own")
    return linear(True, g / "o", mixed)  # (B, R, C, W)


def _continuous_bias(spec: WindowAttentionSpec, g: Body) -> ir.Value:
    """The biases (P,N) of P distances from their logarithms, by a network (Liu et al. 2022, 3.3)."""
    assert spec.cosine is not None
    weights = g.weight("relative.up.weight"), g.weight("relative.up.bias"), g.weight("relative.down.weight")
    largest = g.op.Constant(value_float=spec.cosine.largest_bias)
    return g.call(continuous_bias(spec, g.dtype), *weights, largest)


@cache
def continuous_bias(spec: WindowAttentionSpec, dtype: ir.DataType) -> OnnxFunction:
    """up (F,2), up_bias (F), down (N,F), the largest bias -> the biases (P,N) of P distances."""
    numbers = onnx.numpy_helper.from_array(np.array(spec.coordinates(), dtype.numpy()))

    @script(domain, default_opset=op)
    def continuous_bias(up, up_bias, down, largest):
        coordinates = op.Constant(value=numbers)  # (P, 2)
        wide = op.Relu(op.MatMul(coordinates, op.Transpose(up, perm=[1, 0])) + up_bias)  # (P, F)
        biases = op.Sigmoid(op.MatMul(wide, op.Transpose(down, perm=[1, 0]))) * largest
        return biases

    return continuous_bias


@cache
def whole_windows(window: int) -> OnnxFunction:
    """x (B,R,C,W) -> padded (B,R',C',W): zeros at the bottom and on the right, to whole windows."""

    @script(domain, default_opset=op)
    def whole_windows(x):
        missing = op.Mod(op.Neg(op.Shape(x, start=1, end=3)), op.Constant(value_ints=[window]))  # (2)
        zeros = op.Constant(value_ints=[0, 0, 0, 0, 0])
        padded = op.Pad(x, op.Concat(zeros, missing, op.Constant(value_ints=[0]), axis=0))
        return padded

    return whole_windows


@cache
def window_parts(window: int, heads: int, head_dim: int) -> OnnxFunction:
    """padded (B,R',C',W) -> the shapes [0, R'/w, w, C'/w, w, N, H] and [-1, R'/w, C'/w, N, w, w, H]."""

    @script(domain, default_opset=op)
    def window_parts(padded):
        size = op.Constant(value_ints=[window])
        down = op.Shape(padded, start=1, end=2) / size
        across = op.Shape(padded, start=2, end=3) / size
        last = op.Constant(value_ints=[window, heads, head_dim])
        parts = op.Concat(op.Constant(value_ints=[0]), down, size, across, last, axis=0)
        inner = op.Constant(value_ints=[heads, window, window, head_dim])
        together = op.Concat(op.Constant(value_ints=[-1]), down, across, inner, axis=0)
        return parts, together

    return window_parts


@script(domain, default_opset=op)
def window_rows(x, shape):
    """x (B,R'/w,w,C'/w,w,N,H) -> every window and head together, as `shape` has them."""
    y = op.Reshape(op.Transpose(x, perm=[0, 1, 3, 5, 2, 4, 6]), shape)
    return y


@script(domain, default_opset=op)
def window_grid(heads, together, padded):
    """Windows and heads, in the shape `together`, [-1, R'/w, C'/w, N, w, w, H] -> (B,R',C',W), as padded."""
    y = op.Reshape(op.Transpose(op.Reshape(heads, together), perm=[0, 1, 4, 2, 5, 3, 6]), op.Shape(padded))
    return y


@cache
def _unit_heads(least: float) -> OnnxFunction:
    """x (...,N,H) -> L2-normalised heads."""

    @script(domain, default_opset=op)
    def unit_heads(x):
        length = op.Sqrt(op.ReduceSum(x * x, op.Constant(value_ints=[-1]), keepdims=1))
        y = x / op.Max(length, op.Constant(value_float=least))
        return y

    return unit_heads


@cache
def _scaled_unit(least: float) -> OnnxFunction:
    """x (...,N,H), scale (N,1,1) and its largest value, both logarithms -> scaled L2-normalised heads."""
    unit = _unit_heads(least)

    @script(domain, default_opset=op)
    def scaled_unit(x, scale, largest):
        factor = op.Exp(op.Min(op.Squeeze(scale, op.Constant(value_ints=[2])), largest))  # (N, 1)
        y = unit(x) * factor
        return y

    return scaled_unit


@cache
def pair_bias(window: int) -> OnnxFunction:
    """biases (P,N) of P distances -> bias (1,N,T,T) of each query and key in a window."""
    size, most, every = window**2, window - 1, 2 * window - 1

    @script(domain, default_opset=op)
    def pair_bias(biases):
        zero, one, column = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[1])
        side, last = op.Constant(value_int=window), op.Constant(value_int=most)
        order = op.Range(zero, op.Constant(value_int=size), one)  # (T)
        rows, columns = order / side, op.Mod(order, side)
        down = op.Unsqueeze(rows, column) - rows + last  # (T, T)
        across = op.Unsqueeze(columns, column) - columns + last
        distances = down * op.Constant(value_int=every) + across
        picked = op.Gather(biases, distances)  # (T, T, N)
        bias = op.Unsqueeze(op.Transpose(picked, perm=[2, 0, 1]), op.Constant(value_ints=[0]))
        return bias

    return pair_bias


@cache
def window_shift(spec: WindowAttentionSpec) -> OnnxFunction:
    """The shift of a grid's windows: x (B,R,C,W), padded to (R',C') -> mask, and the order of rows.

    mask (M,1,T,T) is added to scores: `hidden` for pairs from different edges of the grid. rows (R') and
    columns (C') are the order in which the padded grid is read, own_rows (R) and own_columns (C) the places
    of the grid in that order.
    """
    window, by, size, hidden = spec.window, spec.shift, spec.size, spec.hidden
    order, sometimes = _order(window), not spec.always_shifted

    @script(domain, default_opset=op)
    def window_shift(x):
        shift = op.Constant(value_ints=[by])
        if sometimes:
            least = op.ReduceMin(op.Shape(x, start=1, end=3), keepdims=1)  # (1)
            larger = op.Greater(least, op.Constant(value_ints=[window]))
            shift = op.Cast(larger, to=7) * shift
        rows, own_rows, down = order(op.Shape(x, start=1, end=2), shift)
        columns, own_columns, across = order(op.Shape(x, start=2, end=3), shift)
        threes = op.Unsqueeze(down, op.Constant(value_ints=[1, 3])) * op.Constant(value_int=3)
        both = threes + op.Unsqueeze(across, op.Constant(value_ints=[0, 2]))  # (R'/w, C'/w, w, w)
        parts = op.Reshape(both, op.Constant(value_ints=[-1, size]))  # (M, T)
        one = op.Constant(value_ints=[1])
        same = op.Equal(op.Unsqueeze(parts, op.Constant(value_ints=[2])), op.Unsqueeze(parts, one))
        added = op.Where(same, op.Constant(value_float=0.0), op.Constant(value_float=hidden))  # (M, T, T)
        mask = op.Unsqueeze(added, one)
        return mask, rows, columns, own_rows, own_columns

    return window_shift


@cache
def _order(window: int) -> OnnxFunction:
    """size (1), shift (1) of one side -> order (size'), back (size), the edges (size'/w,w) of its places."""

    @script(domain, default_opset=op)
    def window_order(size, shift):
        zero, one, side = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[window])
        padded = size + op.Mod(op.Neg(size), side)  # (1)
        steps = op.Range(zero, op.Squeeze(padded), one)
        last = op.Cast(op.GreaterOrEqual(steps, padded - side), to=7)
        turned = op.Cast(op.GreaterOrEqual(steps, padded - shift), to=7)
        edges = op.Reshape(last + turned, op.Constant(value_ints=[-1, window]))
        order = op.Mod(steps + shift, padded)
        back = op.Mod(op.Range(zero, op.Squeeze(size), one) + padded - shift, padded)
        return order, back, edges

    return window_order
