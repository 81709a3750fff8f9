"""Attention beside convolutions whose kernels are made of the tokens."""

import onnx_ir as ir

from txexport.spec import ConvolvedAttentionSpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.mask import padding_mask


@component("y")
def convolved_attention(
    spec: ConvolvedAttentionSpec, g: Body, x: ir.Value, attention_mask: ir.Value
) -> ir.Value:
    """Half of the heads attend, half convolve with kernels of their own (Jiang et al. 2020, 4).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    op, heads, scale = g.op, g.op.Constant(value_ints=[0, 0, spec.num_heads, -1]), spec.head_dim**-0.5
    queries = linear(True, g / "q", x)  # (B, S, N*H)
    q = g.call(split, queries, heads)  # (B, N, S, H)
    k = g.call(split, linear(True, g / "k", x), heads)
    v = g.call(split, linear(True, g / "v", x), heads)
    mask = g.call(padding_mask, attention_mask, attention_mask)  # (B, 1, S, S)
    mixed = g.call(merge, op.Attention(q, k, v, mask, scale=scale), name="mixed")  # (B, S, N*H)
    side, channels = spec.kernel // 2, op.Transpose(x, perm=[0, 2, 1])
    near = op.Conv(
        channels, g.weight("depthwise.weight"), pads=[side, side], group=spec.hidden_size, name="near"
    )
    span = linear(True, g / "pointwise", op.Transpose(near, perm=[0, 2, 1]))  # (B, S, N*H)
    scores = linear(True, g / "kernel", op.Mul(span, queries, name="spans"))  # (B, S, N*K)
    kernels = op.Softmax(op.Reshape(scores, heads), axis=-1, name="kernels")  # (B, S, N, K)
    convolved = _convolved(spec, g, linear(True, g / "convolved", x), kernels)  # (B, S, N*H)
    y = linear(True, g / "o", op.Concat(mixed, convolved, axis=2))
    return y


def _convolved(spec: ConvolvedAttentionSpec, g: Body, x: ir.Value, kernels: ir.Value) -> ir.Value:
    """x (B,S,N*H), kernels (B,S,N,K) -> each token's sum over its span (B,S,N*H)."""
    op, side, axis = g.op, spec.kernel // 2, g.op.Constant(value_ints=[1])
    padded = op.Pad(x, op.Constant(value_ints=[0, side, 0, 0, side, 0]), name="padded")
    padded = op.Reshape(padded, op.Constant(value_ints=[0, 0, spec.num_heads, -1]))  # (B, S + K - 1, N, H)
    numbers = op.Split(
        kernels,
        op.Constant(value_ints=[1] * spec.kernel),
        axis=3,
        name=[f"kernel_{place}" for place in range(spec.kernel)],
    )
    length, terms = op.Shape(x, start=1, end=2), []
    for place, number in enumerate(numbers):  # (B, S, N, 1)
        first = op.Constant(value_ints=[place])
        terms.append(op.Mul(op.Slice(padded, first, op.Add(length, first), axis), number))
    return op.Reshape(op.Sum(*terms), op.Constant(value_ints=[0, 0, -1]))
