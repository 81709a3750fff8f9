"""Multi-head attention within blocks of a sequence and their neighbours."""

import onnx_ir as ir

from txexport.spec import LocalAttentionSpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.blocks import blocks, distances, joined, preceded, rows, surrounded
from txgraphs.linear import linear


@component("y")
def local_attention(spec: LocalAttentionSpec, g: Body, x: ir.Value, attention_mask: ir.Value) -> ir.Value:
    """Attention over blocks: causal (Parmar et al. 2018, 3.3), or both ways (Zaheer et al. 2020, D).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W); T is 2C or 3C, the keys of a block.
    """
    op, around = g.op, preceded if spec.causal else surrounded
    end, ahead = (spec.block_size, 0) if spec.causal else (2 * spec.block_size, 2 * spec.block_size)
    heads, size = (op.Constant(value_ints=v) for v in ([0, 0, spec.num_heads, -1], [spec.block_size]))

    def cut(x: ir.Value) -> ir.Value:
        return g.call(blocks, x, size)  # (B, M, C, W)

    q = g.call(split, g.call(rows, cut(linear(spec.bias, g / "q", x))), heads)  # (B*M, N, C, H)
    k = g.call(split, g.call(around, cut(linear(spec.bias, g / "k", x))), heads)  # (B*M, N, T, H)
    v = g.call(split, g.call(around, cut(linear(spec.bias, g / "v", x))), heads)
    real = g.call(around, cut(op.Unsqueeze(attention_mask, op.Constant(value_ints=[2]))))  # (B*M, T, 1)
    start, end = (op.Constant(value_int=place) for place in (-spec.block_size, end))
    apart = g.call(distances, q, start, end)
    seen = op.LessOrEqual(apart, op.Constant(value_int=ahead))  # (C, T)
    keys = op.Transpose(op.Cast(real, to=9), perm=[0, 2, 1])  # (B*M, 1, T)
    mask = op.And(op.Unsqueeze(keys, op.Constant(value_ints=[1])), seen)  # (B*M, 1, C, T)
    scale = spec.head_dim**-0.5
    mixed = g.call(merge, op.Attention(q, k, v, mask, scale=scale), name="mixed")  # (B*M, C, N*H)
    y = linear(spec.bias, g / "o", g.call(joined, mixed, x))  # (B, S, W)
    return y
