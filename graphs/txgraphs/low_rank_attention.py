"""Multi-head attention whose projections are products of two narrow matrices."""

import onnx_ir as ir

from txexport.spec import Factored, LowRankAttentionSpec
from txexport.spec.attention import Reach
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.mask import causal_mask, padding_mask


@component("y")
def low_rank_linear(bias: bool, g: Body, x: ir.Value) -> ir.Value:
    """Projection through R numbers: x (..., in) -> y (..., out) (Winata et al. 2020, 2).

    Its dense matrix (out,in) is weight (out,R) times inner.weight (R,in).
    """
    y = linear(bias, g, linear(False, g / "inner", x))
    return y


@component("y")
def low_rank_attention(
    spec: LowRankAttentionSpec, g: Body, x: ir.Value, attention_mask: ir.Value
) -> ir.Value:
    """Attention of a sequence over itself, some projections of low rank (Winata et al. 2020, 2).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    heads, scale = g.op.Constant(value_ints=[0, 0, spec.num_heads, -1]), spec.head_dim**-0.5
    inputs = linear if spec.factored == Factored.VALUE else low_rank_linear
    output = low_rank_linear if spec.factored == Factored.ALL else linear
    q = g.call(split, inputs(spec.bias, g / "q", x), heads)  # (B, N, S, H)
    k = g.call(split, inputs(spec.bias, g / "k", x), heads)
    v = g.call(split, low_rank_linear(spec.bias, g / "v", x), heads)
    if spec.causal:
        mask = g.call(
            causal_mask(Reach(None)), attention_mask, attention_mask, attention_mask
        )  # (B, 1, S, S)
    else:
        mask = g.call(padding_mask, attention_mask, attention_mask)  # (B, 1, S, S)
    mixed = g.call(merge, g.op.Attention(q, k, v, mask, scale=scale), name="mixed")  # (B, S, N*H)
    y = output(spec.bias, g / "o", mixed)  # (B, S, W)
    return y
