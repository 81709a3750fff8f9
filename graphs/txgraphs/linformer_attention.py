"""Multi-head attention over a fixed number of sums of the keys and values."""

import onnx_ir as ir

from txexport.spec import LinformerAttentionSpec, Sharing
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear


@component("y")
def length_projection(g: Body, x: ir.Value) -> ir.Value:
    """K sums of a sequence's tokens, shared by all heads or separate (Wang et al. 2020, 4).

    x (B,N,S,H) -> y (B,N,K,H); S is at most the spec's max_length.
    """
    op = g.op
    first, length = op.Constant(value_ints=[0]), op.Shape(x, start=2, end=3)
    y = op.MatMul(op.Slice(g.weight("weight"), first, length, op.Constant(value_ints=[-1])), x)
    return y


@component("y")
def linformer_attention(
    spec: LinformerAttentionSpec, g: Body, x: ir.Value, attention_mask: ir.Value
) -> ir.Value:
    """Attention of every query to K sums of the real tokens (Wang et al. 2020, 4).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W); S is at most the spec's max_length.
    """
    op, heads = g.op, g.op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    along = "e" if spec.sharing == Sharing.KEY_VALUE else "f"  # the projection of the values
    real = op.Cast(
        op.Unsqueeze(attention_mask, op.Constant(value_ints=[2])), to=g.dtype, name="real"
    )  # (B, S, 1)
    q = g.call(split, linear(spec.bias, g / "q", x), heads)  # (B, N, S, H)
    k = g.call(split, op.Mul(linear(spec.bias, g / "k", x), real), heads)  # (B, N, S, H)
    k = length_projection(g / "e", k)  # (B, N, K, H)
    v = g.call(split, op.Mul(linear(spec.bias, g / "v", x), real), heads)  # (B, N, S, H)
    v = length_projection(g / along, v)  # (B, N, K, H)
    scaled = op.Mul(k, op.Constant(value_float=spec.head_dim**-0.5))
    shares = op.Softmax(op.MatMul(q, op.Transpose(scaled, perm=[0, 1, 3, 2])), axis=-1)  # (B, N, S, K)
    mixed = g.call(merge, op.MatMul(shares, v), name="mixed")  # (B, S, N*H)
    y = linear(spec.bias, g / "o", mixed)  # (B, S, W)
    return y
