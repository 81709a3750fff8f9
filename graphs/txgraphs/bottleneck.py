"""A layer within a bottleneck: attention and several networks, narrower than the vectors around it."""

import onnx_ir as ir

from txexport.spec import BottleneckSpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.feedforward import feed_forward
from txgraphs.linear import linear
from txgraphs.mask import padding_mask
from txgraphs.norm import norm


@component("y")
def bottleneck(spec: BottleneckSpec, g: Body, x: ir.Value, attention_mask: ir.Value) -> ir.Value:
    """The sum that a layer of MobileBERT adds to its input (Sun et al. 2020, 3.1 and 3.2).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    op, heads, scale = g.op, g.op.Constant(value_ints=[0, 0, spec.num_heads, -1]), spec.head_dim**-0.5
    narrow = norm(spec.norm, g / "narrow_norm", linear(True, g / "narrow", x))  # (B, S, N*H)
    q = g.call(split, linear(True, g / "q", narrow), heads)  # (B, N, S, H)
    k = g.call(split, linear(True, g / "k", narrow), heads)
    v = g.call(split, linear(True, g / "v", x), heads)
    mask = g.call(padding_mask, attention_mask, attention_mask)  # (B, 1, S, S)
    mixed = g.call(merge, op.Attention(q, k, v, mask, scale=scale), name="mixed")  # (B, S, N*H)
    mixed = linear(True, g / "o", mixed)
    residual = norm(spec.norm, g / "residual_norm", linear(True, g / "residual", x))
    inner = norm(spec.norm, g / "o_norm", op.Add(mixed, residual))
    for number in range(spec.networks):
        network = feed_forward(spec.feed_forward, g / f"networks.{number}", inner)
        inner = norm(spec.norm, g / f"norms.{number}", op.Add(network, inner))
    y = linear(True, g / "wide", inner)
    return y
