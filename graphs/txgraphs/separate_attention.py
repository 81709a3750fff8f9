"""Attention whose queries, keys and values are given apart."""

import onnx_ir as ir

from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.scaled_dot_product_attention import own_mix, plain_mix


@component("y")
def separate_attention(
    heads: int,
    inner: int,
    g: Body,
    queries: ir.Value,
    keys: ir.Value,
    values: ir.Value,
    mask: ir.Value | None = None,
) -> ir.Value:
    """Attention with `heads` heads, `inner` numbers within (Vaswani et al. 2017, 3.2).

    queries (B,S,W), keys and values (B,T,W), mask (B,1,S,T) or None -> y (B,S,W).
    """
    size = inner // heads
    shape = g.op.Constant(value_ints=[0, 0, heads, size])
    q = g.call(split, linear(True, g / "q", queries), shape)
    k = g.call(split, linear(True, g / "k", keys), shape)
    v = g.call(split, linear(True, g / "v", values), shape)
    scale = size**-0.5
    heads_of = (
        g.call(plain_mix, q, k, v, scale=scale)
        if mask is None
        else g.call(own_mix, q, k, v, mask, scale=scale)
    )
    y = linear(True, g / "o", g.call(merge, heads_of, name="mixed"))
    return y
