"""One vector of a sequence, by attention."""

import onnx_ir as ir

from txexport.spec import AttentionPoolSpec
from txgraphs._component import Body, component
from txgraphs.attention import cross_attention, cross_key_value
from txgraphs.feedforward import feed_forward
from txgraphs.mask import padding_mask
from txgraphs.norm import norm


@component("pooled")
def attention_pool(spec: AttentionPoolSpec, g: Body, x: ir.Value, **masks: ir.Value) -> ir.Value:
    """Attention pooling with a learned query (Lee et al. 2019, 3.2; Zhai et al. 2022, 3.2).

    x (B,S,W), of masked attention an attention_mask (B,S) -> pooled (B,W).
    """
    op = g.op
    shape = op.Concat(op.Shape(x, end=1), op.Constant(value_ints=[1, 1]), axis=0, name="shape")
    probe = op.Expand(g.weight("probe.weight"), shape, name="probe")  # (B, 1, W)
    k, v = cross_key_value(spec.attention, g / "key_value", x)  # (B, N, S, H)
    mask = None
    if masks:
        mask = g.call(padding_mask, masks["attention_mask"], probe, name="mask")  # (B, 1, 1, S)
    (attended,) = cross_attention(spec.attention, False, g / "attention", probe, mask, k, v)  # (B, 1, W)
    fed = feed_forward(spec.feed_forward, g / "feed_forward", norm(spec.norm, g / "norm", attended))
    y = op.Add(attended, fed, name="y")
    pooled = op.Gather(y, op.Constant(value_int=0), axis=1)
    return pooled
