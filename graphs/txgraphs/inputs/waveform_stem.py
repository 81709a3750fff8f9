"""Waveforms through a short stem of convolutions (Jeffries et al. 2024, 3.1)."""

import onnx_ir as ir

from txexport.spec import WaveformStemSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation


@component("x")
def waveform_stem(spec: WaveformStemSpec, g: Body, input_values: ir.Value) -> ir.Value:
    """Convolutions over samples; a tanh and a norm over channels and time follow the first.

    input_values (B,samples) -> x (B,S,W).
    """
    op = g.op
    first, *others = spec.convolutions
    waveform = op.Unsqueeze(input_values, op.Constant(value_ints=[1]), name="waveform")  # (B, 1, samples)
    weight = g.weight("convolutions.0.weight")
    frames = op.Tanh(op.Conv(waveform, weight, strides=[first.stride]), name="frames")
    frames = _normed(spec, g, frames)  # (B, channels, S)
    for number, convolution in enumerate(others, 1):
        place = g / f"convolutions.{number}"
        convolved = op.Conv(
            frames, place.weight("weight"), place.weight("bias"), strides=[convolution.stride]
        )
        frames = g.call(activation(spec.activation), convolved, name="frames")  # (B, channels, S)
    x = op.Transpose(frames, perm=[0, 2, 1])  # (B, S, W)
    return x


def _normed(spec: WaveformStemSpec, g: Body, frames: ir.Value) -> ir.Value:
    """frames (B,channels,S), normalised over channels and time, with a weight and a bias for each channel."""
    op = g.op
    one, zero = (op.CastLike(op.Constant(value_floats=[value]), frames) for value in (1.0, 0.0))
    row = op.Reshape(frames, op.Constant(value_ints=[0, 1, -1]))  # (B, 1, channels * S)
    normed = op.InstanceNormalization(row, one, zero, epsilon=spec.norm_eps)
    normed = op.Reshape(normed, op.Shape(frames), name="normed")
    weight, bias = (
        op.Unsqueeze(g.weight(f"norm.{part}"), op.Constant(value_ints=[1])) for part in ("weight", "bias")
    )
    return op.Add(op.Mul(normed, weight), bias, name="frames")


embedding = waveform_stem
