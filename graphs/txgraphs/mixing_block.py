"""A layer of two sublayers that both keep states: time mixing and channel mixing."""

import onnx_ir as ir

from txexport.spec import BlockSpec
from txgraphs._component import Body, component
from txgraphs.channel_mix import channel_mix
from txgraphs.norm import norm
from txgraphs.position import asked
from txgraphs.time_mix import time_mix


@component("y", "time_shift", "numerator", "denominator", "maximum", "channel_shift")
def mixing_block(
    spec: BlockSpec,
    g: Body,
    x: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    channel_shift: ir.Value,
    logits_indices: ir.Value | None = None,
    **states: ir.Value,
) -> tuple[ir.Value, ...]:
    """Time mixing, then channel mixing, each in its residual and norm (Peng et al. 2023, RWKV, 3).

    x (B,S,W), real (B,S,1), ends (B), the states (B,W) of both sublayers -> y (B,S,W), the states. With
    logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    inner = norm(spec.norm, g / "attention_norm", x)
    mixed, *present = time_mix(spec.attention, g / "attention", inner, **states, real=real, ends=ends)
    attended = g.op.Add(x, mixed, name="attended")  # (B, S, W)
    inner = norm(spec.norm, g / "feed_forward_norm", attended)
    network, place = spec.feed_forward, g / "feed_forward"
    fed, channel_shift = channel_mix(network, place, inner, channel_shift, real, ends, logits_indices)
    y = g.op.Add(asked(g, attended, logits_indices), fed)  # (B, L, W)
    return y, *present, channel_shift
