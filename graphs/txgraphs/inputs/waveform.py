"""Waveforms through convolutions (Baevski et al. 2020, 2)."""

import onnx_ir as ir

from txexport.spec import WaveformSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm

EPSILON = 1e-5  # of the norm over time


@component("x")
def waveform_embedding(spec: WaveformSpec, g: Body, input_values: ir.Value) -> ir.Value:
    """Convolutions over samples, projected, plus positions by a convolution over the projected vectors.

    input_values (B,samples) -> x (B,S,W).
    """
    op = g.op
    frames = op.Unsqueeze(input_values, op.Constant(value_ints=[1]), name="waveform")  # (B, 1, samples)
    for number, convolution in enumerate(spec.convolutions):
        place = g / f"convolutions.{number}"
        bias = [place.weight("bias")] if spec.bias else []
        frames = op.Conv(frames, place.weight("weight"), *bias, strides=[convolution.stride], name="frames")
        if number == 0:
            scale, shift = g.weight("channel_norm.weight"), g.weight("channel_norm.bias")
            frames = op.InstanceNormalization(frames, scale, shift, epsilon=EPSILON, name="frames")
        frames = g.call(activation(spec.activation), frames, name="frames")  # (B, channels, S)
    projected = linear(True, g / "project", norm(spec.norm, g / "norm", op.Transpose(frames, perm=[0, 2, 1])))
    x = op.Add(projected, convolutional_position(spec, g / "position", projected))  # (B, S, W)
    return norm(spec.final_norm, g / "final_norm", x)


@component("positions")
def convolutional_position(spec: WaveformSpec, g: Body, x: ir.Value) -> ir.Value:
    """Positions by a grouped convolution: x (B,S,W) -> positions (B,S,W)."""
    op, kernel = g.op, spec.position_kernel
    pads = [kernel // 2, kernel // 2 - (kernel % 2 == 0)]
    weight, bias, groups = g.weight("weight"), g.weight("bias"), spec.position_groups
    channels = op.Transpose(x, perm=[0, 2, 1])  # (B, W, S)
    convolved = op.Conv(channels, weight, bias, pads=pads, group=groups, name="convolved")
    positions = op.Transpose(g.call(activation(spec.activation), convolved), perm=[0, 2, 1])  # (B, S, W)
    return positions


embedding = waveform_embedding
