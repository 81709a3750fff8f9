"""Channel mixing: a feed-forward network over a token and the one before it."""

import onnx_ir as ir

from txexport.spec import Activation, ChannelMixSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.position import asked
from txgraphs.token_shift import interpolated, token_shift


@component("y", "channel_shift")
def channel_mix(
    spec: ChannelMixSpec,
    g: Body,
    x: ir.Value,
    channel_shift: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value]:
    """A gated network with a squared ReLU over interpolated tokens (Peng et al. 2023, RWKV, 3.1).

    x (B,S,W), channel_shift (B,W), real (B,S,1) is 0 for padding, ends (B) -> y (B,S,W), channel_shift. With
    logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op = g.op
    x = op.Mul(x, real, name="real_x")
    shifted, channel_shift = g.call(token_shift, x, channel_shift, ends, name="shift")  # (B, S, W)
    x, shifted = (asked(g, one, logits_indices) for one in (x, shifted))  # (B, L, W)
    up = linear(False, g / "up", g.call(interpolated, x, shifted, g.weight("mix_up"), name="up_input"))
    inner = g.call(activation(Activation.RELU_SQUARED), up, name="inner")  # (B, L, F)
    gate = linear(
        False, g / "gate", g.call(interpolated, x, shifted, g.weight("mix_gate"), name="gate_input")
    )
    y = op.Mul(op.Sigmoid(gate), linear(False, g / "down", inner))
    return y, channel_shift
