"""Waveforms through convolutions (Baevski et al. 2020, 2)."""

import onnx_ir as ir

from txexport.contracts.names import ATTENTION_MASK
from txexport.spec import BatchNormSpec, ConvolutionNorm, NormSpec, PositionNorm, WaveformSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.batch_norm import batch_norm
from txgraphs.linear import linear
from txgraphs.norm import norm

EPSILON = 1e-5  # of the norms of convolutions


@component("x", "mask")
def waveform_embedding(
    spec: WaveformSpec, g: Body, input_values: ir.Value, **masks: ir.Value
) -> tuple[ir.Value, ...]:
    """Convolutions over samples, projected, plus positions by a convolution over the projected vectors.

    input_values (B,samples) -> x (B,S,W); with attention_mask (B,samples) among the masks, also mask (B,S).
    """
    op = g.op
    frames = op.Unsqueeze(input_values, op.Constant(value_ints=[1]), name="waveform")  # (B, 1, samples)
    for number, convolution in enumerate(spec.convolutions):
        place = g / f"convolutions.{number}"
        bias = [place.weight("bias")] if spec.bias else []
        frames = op.Conv(frames, place.weight("weight"), *bias, strides=[convolution.stride], name="frames")
        frames = _normed(spec, g, number, frames)
        frames = g.call(activation(spec.activation), frames, name="frames")  # (B, channels, S)
    vectors = op.Transpose(frames, perm=[0, 2, 1])  # (B, S, channels)
    if spec.norm is not None:
        vectors = norm(spec.norm, g / "norm", vectors)
    projected = linear(True, g / "project", vectors) if spec.projected else vectors  # (B, S, W)
    mask = []
    if spec.masked:
        mask = [vector_mask(spec, g, masks[ATTENTION_MASK], projected)]  # (B, S)
        real = op.Unsqueeze(op.Cast(mask[0], to=ir.DataType.BOOL), op.Constant(value_ints=[2]))
        zero = op.CastLike(op.Constant(value_float=0.0), projected)
        projected = op.Where(real, projected, zero, name="projected")
    x = projected
    if spec.position_kernel is not None:
        layers = [f"positions.{number}" for number in range(spec.position_layers)]
        positions = projected
        for name in layers if spec.position_norm == PositionNorm.LAYER else ["position"]:
            positions = convolutional_position(spec, spec.position_kernel, g / name, positions)  # (B, S, W)
        x = op.Add(projected, positions)  # (B, S, W)
    if spec.final_norm is not None:
        x = norm(spec.final_norm, g / "final_norm", x)
    return x, *mask


def _normed(spec: WaveformSpec, g: Body, number: int, frames: ir.Value) -> ir.Value:
    """The output of a convolution, frames (B,channels,S), normalised."""
    op = g.op
    if spec.convolution_norm == ConvolutionNorm.LAYER:
        size = NormSpec(spec.convolutions[number].size, EPSILON)
        vectors = norm(size, g / f"convolution_norms.{number}", op.Transpose(frames, perm=[0, 2, 1]))
        return op.Transpose(vectors, perm=[0, 2, 1], name="frames")
    if number > 0:
        return frames
    scale, shift = g.weight("channel_norm.weight"), g.weight("channel_norm.bias")
    return op.InstanceNormalization(frames, scale, shift, epsilon=EPSILON, name="frames")


def vector_mask(spec: WaveformSpec, g: Body, attention_mask: ir.Value, x: ir.Value) -> ir.Value:
    """attention_mask (B,samples) of 0 and 1, x (B,S,W) -> mask (B,S): 1 for the vectors of real samples."""
    op = g.op
    lengths = op.ReduceSum(attention_mask, op.Constant(value_ints=[1]), keepdims=1, name="lengths")  # (B, 1)
    for convolution in spec.convolutions:
        # Division rounds towards zero, so that what it divides is not negative where vectors are left.
        counted = op.Add(lengths, op.Constant(value_ints=[convolution.stride - convolution.kernel]))
        lengths = op.Div(counted, op.Constant(value_ints=[convolution.stride]), name="lengths")
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    order = op.Range(zero, op.Squeeze(op.Shape(x, start=1, end=2)), one, name="order")  # (S)
    return op.Cast(op.Less(order, lengths), to=ir.DataType.INT64, name="mask")


@component("positions")
def convolutional_position(spec: WaveformSpec, kernel: int, g: Body, x: ir.Value) -> ir.Value:
    """Positions by a grouped convolution: x (B,S,W) -> positions (B,S,W)."""
    op = g.op
    pads = [kernel // 2, kernel // 2 - (kernel % 2 == 0)]
    weight, bias, groups = g.weight("weight"), g.weight("bias"), spec.position_groups
    channels = op.Transpose(x, perm=[0, 2, 1])  # (B, W, S)
    if spec.position_norm == PositionNorm.BATCH:
        channels = batch_norm(BatchNormSpec(spec.hidden_size, EPSILON), g / "norm", channels)
    convolved = op.Conv(channels, weight, bias, pads=pads, group=groups, name="convolved")
    if spec.position_norm == PositionNorm.LAYER:
        vectors = op.Transpose(convolved, perm=[0, 2, 1])  # (B, S, W)
        one = op.CastLike(op.Constant(value_float=1.0), x)
        scale = op.Expand(one, op.Constant(value_ints=[spec.hidden_size]))
        normed = op.LayerNormalization(vectors, scale, epsilon=EPSILON, name="normed")
        return g.call(activation(spec.activation), normed)
    positions = op.Transpose(g.call(activation(spec.activation), convolved), perm=[0, 2, 1])  # (B, S, W)
    return positions


embedding = waveform_embedding
