"""Multi-head attention whose queries and keys are projections of rotated vectors."""

import onnx_ir as ir

from txexport.spec import RotatedInputAttentionSpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.scaled_dot_product_attention import masked_softmax, own_mix, scores, weighted_sum


@component("y", "weights")
def rotated_input_attention(
    spec: RotatedInputAttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    cos: ir.Value,
    sin: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of vectors that are rotated by their positions before the projections.

    x (B,S,W), mask (B,1,S,S), cos and sin (B,S,R) -> y (B,S,W), and if `weighted` weights (B,N,S,S).
    """
    op, scale = g.op, spec.scale
    heads = op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    turned = op.RotaryEmbedding(g.call(split, x, heads), cos, sin, interleaved=0, name="turned")
    rotated = g.call(merge, turned, name="rotated")  # (B, S, W)
    q = g.call(split, linear(True, g / "q", rotated), heads)  # (B, N, S, H)
    k = g.call(split, linear(True, g / "k", rotated), heads)
    v = g.call(split, linear(True, g / "v", x), heads)
    if not weighted:
        mixed = (
            op.Attention(q, k, v, scale=scale)
            if mask is None
            else g.call(own_mix, q, k, v, mask, scale=scale)
        )
        return (linear(True, g / "o", g.call(merge, mixed)),)  # (B, S, W)
    s = g.call(scores, q, k, scale=scale)
    weights = op.Softmax(s, axis=-1) if mask is None else g.call(masked_softmax, s, mask, name="weights")
    y = linear(True, g / "o", g.call(merge, g.call(weighted_sum, weights, v), name="mixed"))
    return y, weights
