"""Spectrograms through convolutions over time and frequency (Rekesh et al. 2023, 2.1)."""

import onnx_ir as ir

from txexport.spec import SubsampledSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear


@component("x", "mask")
def subsampled_embedding(
    spec: SubsampledSpec, g: Body, input_features: ir.Value, attention_mask: ir.Value
) -> tuple[ir.Value, ...]:
    """Convolutions with a stride in time and frequency, projected; padding is zeros after each of them.

    input_features (B,frames,bands), attention_mask (B,frames) -> x (B,S,W), mask (B,S).
    """
    op = g.op
    lengths = op.ReduceSum(attention_mask, op.Constant(value_ints=[1]), keepdims=1, name="lengths")
    lengths = _after(spec, g, lengths)  # (B, 1)
    image = op.Unsqueeze(input_features, op.Constant(value_ints=[1]), name="image")  # (B, 1, frames, bands)
    frames = op.Relu(_real(g, _sliding(spec, g, "first", image), lengths))  # (B, channels, frames, bands)
    for number in range(spec.layers - 1):
        lengths = _after(spec, g, lengths)
        frames = _real(g, _sliding(spec, g, f"depthwise.{number}", frames, spec.channels), lengths)
        projected = op.Conv(frames, *_weights(g, f"pointwise.{number}"), name="projected")
        frames = op.Relu(_real(g, projected, lengths), name="frames")
    rows = op.Transpose(frames, perm=[0, 2, 1, 3])  # (B, S, channels, bands)
    flat = op.Reshape(rows, op.Constant(value_ints=[0, 0, spec.channels * spec.bands]), name="flat")
    x = linear(True, g / "project", flat)  # (B, S, W)
    if spec.scale != 1:
        x = op.Mul(x, op.CastLike(op.Constant(value_float=spec.scale), x), name="scaled")
    order = op.Range(
        op.Constant(value_int=0), op.Squeeze(op.Shape(x, start=1, end=2)), op.Constant(value_int=1)
    )
    mask = op.Cast(op.Less(order, lengths), to=ir.DataType.INT64)  # (B, S)
    return x, mask


def _weights(g: Body, name: str) -> list[ir.Value]:
    return [g.weight(f"{name}.weight"), g.weight(f"{name}.bias")]


def _sliding(spec: SubsampledSpec, g: Body, name: str, frames: ir.Value, groups: int = 1) -> ir.Value:
    """A convolution of frames (B,channels,frames,bands) with a stride."""
    pads, strides = [spec.kernel // 2] * 4, [spec.stride] * 2
    convolved: ir.Value = g.op.Conv(
        frames, *_weights(g, name), pads=pads, strides=strides, group=groups, name="convolved"
    )
    return convolved


def _after(spec: SubsampledSpec, g: Body, lengths: ir.Value) -> ir.Value:
    """The lengths (B,1) of rows after a convolution with a stride."""
    one, stride = (g.op.Constant(value_int=number) for number in (1, spec.stride))
    after: ir.Value = g.op.Add(g.op.Div(g.op.Sub(lengths, one), stride), one, name="lengths")
    return after


def _real(g: Body, frames: ir.Value, lengths: ir.Value) -> ir.Value:
    """frames (B,channels,frames,bands) with zeros beyond lengths (B,1)."""
    op = g.op
    zero, one = op.Constant(value_int=0), op.Constant(value_int=1)
    order = op.Range(zero, op.Squeeze(op.Shape(frames, start=2, end=3)), one)
    real = op.Unsqueeze(op.Less(order, lengths), op.Constant(value_ints=[1, 3]))  # (B, 1, frames, 1)
    masked: ir.Value = op.Where(real, frames, op.CastLike(op.Constant(value_float=0.0), frames), name="real")
    return masked


embedding = subsampled_embedding
