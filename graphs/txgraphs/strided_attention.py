"""Multi-head attention to the last tokens in half of the heads, to every stride-th in the others."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import StridedAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.blocks import blocks, columns, distances, joined, preceded, rows
from txgraphs.linear import linear


@cache
def _near(spec: StridedAttentionSpec) -> OnnxFunction:
    """q, k and v (B,M,C,N/2*H), real (B,M,C,1) -> (B*M,C,N/2*H): over the last C tokens."""
    heads, stride, scale = [0, 0, spec.num_heads // 2, -1], spec.stride, spec.head_dim**-0.5
    start = -stride

    @script(domain, default_opset=op)
    def strided_near(q, k, v, real):
        shape = op.Constant(value_ints=heads)
        q = split(rows(q), shape)  # (B*M, N/2, C, H)
        k = split(preceded(k), shape)  # (B*M, N/2, 2C, H)
        v = split(preceded(v), shape)
        first, last = op.Constant(value_int=start), op.Constant(value_int=stride)
        apart = distances(q, first, last)  # (C, 2C)
        seen = op.And(op.LessOrEqual(apart, op.Constant(value_int=0)), op.GreaterOrEqual(apart, first))
        keys = op.Transpose(op.Cast(preceded(real), to=9), perm=[0, 2, 1])  # (B*M, 1, 2C)
        mask = op.And(op.Unsqueeze(keys, op.Constant(value_ints=[1])), seen)  # (B*M, 1, C, 2C)
        mixed = merge(op.Attention(q, k, v, mask, scale=scale))
        return mixed

    return strided_near


@cache
def _far(spec: StridedAttentionSpec) -> OnnxFunction:
    """q, k and v (B,M,C,N/2*H), real (B,M,C,1) -> (B*M,C,N/2*H): over the same place in past blocks."""
    heads, stride, scale = [0, 0, spec.num_heads // 2, -1], spec.stride, spec.head_dim**-0.5

    @script(domain, default_opset=op)
    def strided_far(q, k, v, real):
        shape = op.Constant(value_ints=heads)
        q = split(columns(q), shape)  # (B*C, N/2, M, H)
        k = split(columns(k), shape)
        v = split(columns(v), shape)
        zero, last = op.Constant(value_int=0), op.Squeeze(op.Shape(real, start=1, end=2))
        seen = op.LessOrEqual(distances(q, zero, last), zero)  # (M, M)
        keys = op.Transpose(op.Cast(columns(real), to=9), perm=[0, 2, 1])  # (B*C, 1, M)
        mask = op.And(op.Unsqueeze(keys, op.Constant(value_ints=[1])), seen)  # (B*C, 1, M, M)
        column = merge(op.Attention(q, k, v, mask, scale=scale))  # (B*C, M, N/2*H)
        whole = op.Concat(op.Constant(value_ints=[-1, stride]), op.Shape(column, start=1), axis=0)
        mixed = columns(op.Reshape(column, whole))
        return mixed

    return strided_far


@component("y")
def strided_attention(spec: StridedAttentionSpec, g: Body, x: ir.Value, attention_mask: ir.Value) -> ir.Value:
    """Causal attention over two sets of keys, each in half of the heads (Child et al. 2019, 4.3 and 5.2).

    Token i sees i - C..i in the first half, and i, i - C, i - 2C, ... in the second; C is the stride.
    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    op, half = g.op, spec.num_heads * spec.head_dim // 2
    size, halves = op.Constant(value_ints=[spec.stride]), op.Constant(value_ints=[half, half])

    def chunks(name: str) -> list[ir.Value]:
        cut = g.call(blocks, linear(spec.bias, g / name, x), size)  # (B, M, C, N*H)
        return op.Split(cut, halves, axis=3, name=[f"near_{name}", f"far_{name}"])

    near_q, far_q = chunks("q")  # (B, M, C, N/2*H)
    near_k, far_k = chunks("k")
    near_v, far_v = chunks("v")
    real = g.call(blocks, op.Unsqueeze(attention_mask, op.Constant(value_ints=[2])), size)  # (B, M, C, 1)
    near = g.call(_near(spec), near_q, near_k, near_v, real, name="near")  # (B*M, C, N/2*H)
    far = g.call(_far(spec), far_q, far_k, far_v, real, name="far")  # (B*M, C, N/2*H)
    mixed = op.Concat(near, far, axis=2, name="mixed")  # (B*M, C, N*H)
    y = linear(spec.bias, g / "o", g.call(joined, mixed, x))  # (B, S, W)
    return y
