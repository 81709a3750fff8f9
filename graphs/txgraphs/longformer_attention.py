"""Multi-head attention within a sliding window, and between all tokens and a few global ones."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import LongformerAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.blocks import blocks, distances, joined, rows, surrounded
from txgraphs.linear import linear
from txgraphs.mask import padding_mask


@script(domain, default_opset=op)
def marked_tokens(marks):
    """marks (B,S) of 0 and 1 -> places (B,G) of each row's 1s in order, and which of them are true (B,G).

    G is the largest number of marks in a row, or 1.
    """
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    length = op.Squeeze(op.Shape(marks, start=1, end=2))
    most = op.ReduceMax(op.ReduceSum(marks, op.Constant(value_ints=[1]), keepdims=0), keepdims=1)
    order = marks * length - op.Range(zero, length, one)  # (B, S), more than 0 where marked
    top, places = op.TopK(order, op.Max(most, op.Constant(value_ints=[1])))  # (B, G)
    true = op.Greater(top, zero)
    return places, true


@script(domain, default_opset=op)
def picked(x, places):
    """x (B,S,W), places (B,G) -> (B,G,W): row b's tokens at places[b]."""
    y = op.GatherND(x, op.Unsqueeze(places, op.Constant(value_ints=[2])), batch_dims=1)
    return y


@script(domain, default_opset=op)
def repeated(x, like):
    """x (B,G,W), like (B,M,...) -> (B*M,G,W): a copy for every block."""
    one = op.Constant(value_ints=[1])
    shape = op.Concat(one, op.Shape(like, start=1, end=2), one, one, axis=0)
    y = rows(op.Expand(op.Unsqueeze(x, one), shape))
    return y


@cache
def _near(spec: LongformerAttentionSpec) -> OnnxFunction:
    """q, k, v (B,S,N*H) -> (B,S,N*H): over a block's neighbourhood of 3C keys and the global ones."""
    heads_shape, scale = [0, 0, spec.num_heads, -1], spec.head_dim**-0.5
    reach, start, end = spec.window // 2, -(spec.window // 2), spec.window

    @script(domain, default_opset=op)
    def longformer_near(q, k, v, attention_mask, marks, places, true):
        size, shape = op.Constant(value_ints=[reach]), op.Constant(value_ints=heads_shape)
        one, two = op.Constant(value_ints=[1]), op.Constant(value_ints=[2])
        whole = blocks(op.Unsqueeze(attention_mask, two), size)  # (B, M, C, 1)
        local = blocks(op.Unsqueeze(attention_mask - marks, two), size)  # global keys stand apart
        keys = op.Concat(surrounded(blocks(k, size)), repeated(picked(k, places), whole), axis=1)
        values = op.Concat(surrounded(blocks(v, size)), repeated(picked(v, places), whole), axis=1)
        heads = split(rows(blocks(q, size)), shape)  # (B*M, N, C, H)
        apart = op.Abs(distances(heads, op.Constant(value_int=start), op.Constant(value_int=end)))
        inside = op.LessOrEqual(apart, op.Constant(value_int=reach))  # (C, 3C)
        near = op.Transpose(op.Cast(surrounded(local), to=9), perm=[0, 2, 1])  # (B*M, 1, 3C)
        window = op.And(near, inside)  # (B*M, C, 3C)
        far = op.Transpose(repeated(op.Unsqueeze(true, two), whole), perm=[0, 2, 1])  # (B*M, 1, G)
        extra = op.Expand(far, op.Concat(one, size, one, axis=0))  # (B*M, C, G)
        mask = op.And(op.Concat(window, extra, axis=2), op.Cast(rows(whole), to=9))  # (B*M, C, 3C+G)
        keys, values = split(keys, shape), split(values, shape)  # (B*M, N, 3C+G, H)
        mixed = joined(merge(op.Attention(heads, keys, values, op.Unsqueeze(mask, one), scale=scale)), q)
        return mixed

    return longformer_near


@component("y")
def longformer_attention(
    spec: LongformerAttentionSpec,
    g: Body,
    x: ir.Value,
    attention_mask: ir.Value,
    global_attention_mask: ir.Value,
) -> ir.Value:
    """Attention to neighbours and to global tokens, with full attention (Beltagy et al. 2020, 3.1).

    x (B,S,W), both masks (B,S) of 0 and 1 -> y (B,S,W); a padded query attends to nothing.
    """
    op, heads = g.op, g.op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    marks = op.Mul(attention_mask, global_attention_mask, name="marks")  # (B, S)
    places, true = g.call(marked_tokens, marks)  # (B, G)
    q, k, v = (linear(spec.bias, g / name, x) for name in ("q", "k", "v"))  # (B, S, N*H)
    near = g.call(_near(spec), q, k, v, attention_mask, marks, places, true, name="near")  # (B, S, N*H)
    q = g.call(split, linear(spec.bias, g / "q_global", g.call(picked, x, places)), heads)  # (B, N, G, H)
    k = g.call(split, linear(spec.bias, g / "k_global", x), heads)  # (B, N, S, H)
    v = g.call(split, linear(spec.bias, g / "v_global", x), heads)
    mask = g.call(padding_mask, attention_mask, places)  # (B, 1, G, S)
    far = g.call(merge, op.Attention(q, k, v, mask, scale=spec.head_dim**-0.5), name="far")  # (B, G, N*H)
    zero, one, two = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[2])
    # (B, S), where `far` holds a global token
    back = op.Max(op.Sub(op.CumSum(marks, one), one), zero, name="back")
    chosen = op.Cast(op.Unsqueeze(marks, two), to=9, name="chosen")
    mixed = op.Where(chosen, g.call(picked, far, back), near, name="mixed")  # (B, S, N*H)
    y = linear(spec.bias, g / "o", mixed)  # (B, S, W)
    return y
