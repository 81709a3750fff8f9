"""Maps of several layers as levels of a pyramid (Chen et al. 2024, 3.1)."""

import onnx_ir as ir

from txexport.spec import Activation, BatchNormSpec, NormSpec, ProjectorSpec
from txexport.spec.windowed_maps import NARROWED
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.batch_norm import batch_norm
from txgraphs.norm import norm


@component("y")
def normed_convolution(
    spec: NormSpec | BatchNormSpec, kernel: int, stride: int, act: Activation, g: Body, x: ir.Value
) -> ir.Value:
    """A convolution without a bias, a batch norm or a layer norm of channels, and an activation.

    x (B,inputs,R,C) -> y (B,size,R/stride,C/stride), rounded up.
    """
    around, strides = [kernel // 2] * 4, [stride] * 2
    x = g.op.Conv(x, g.weight("convolution.weight"), pads=around, strides=strides, name="convolved")
    x = channels_normed(spec, g, x) if isinstance(spec, NormSpec) else batch_norm(spec, g / "norm", x)
    y = g.call(activation(act), x)
    return y


def channels_normed(spec: NormSpec, g: Body, x: ir.Value) -> ir.Value:
    """x (B,W,R,C) -> y (B,W,R,C), normalised over channels."""
    turned = g.op.Transpose(x, perm=[0, 2, 3, 1], name="turned")
    y: ir.Value = g.op.Transpose(norm(spec, g / "norm", turned), perm=[0, 3, 1, 2], name="normed")
    return y


@component("y")
def map_resize(spec: ProjectorSpec, size: int, scale: float, g: Body, x: ir.Value) -> ir.Value:
    """A map with twice or half as many rows and columns, or as many.

    x (B,size,R,C) -> y (B,resized,scale * R,scale * C), rounded up.
    """
    relu = Activation.RELU
    if scale == 0.5:
        x = normed_convolution(spec.norm_of(size), 3, 2, relu, g / "coarser", x)
    if scale == 2.0 and size > NARROWED:
        x = normed_convolution(spec.norm_of(size // 2), 1, 1, relu, g / "narrow", x)
    if scale == 2.0:
        weights = g.weight("finer.weight"), g.weight("finer.bias")
        x = g.op.ConvTranspose(x, *weights, kernel_shape=[2, 2], strides=[2, 2], name="doubled")
    return x


@component("y")
def projector_level(
    spec: ProjectorSpec, size: int, scale: float, g: Body, maps: dict[str, ir.Value]
) -> ir.Value:
    """A level of the pyramid, made of a map of each layer that is read.

    maps (B,channels,R,C) -> level (B,size,scale * R,scale * C).
    """
    op, inner, act = g.op, spec.inner, spec.activation
    resized = [
        x if scale == 1.0 else map_resize(spec, size, scale, g / f"resize.{number}", x)
        for number, x in enumerate(maps.values())
    ]
    together = op.Concat(*resized, axis=1) if len(resized) > 1 else resized[0]
    joined = normed_convolution(spec.norm_of(2 * inner), 1, 1, act, g / "first", together)
    halves = op.Constant(value_ints=[inner, inner])
    parts = [*op.Split(joined, halves, axis=1, name=["first_half", "second_half"])]  # (B, inner, R, C)
    for pair in range(spec.blocks):
        x = parts[-1]
        for number in range(2):
            x = normed_convolution(spec.norm_of(inner), 3, 1, act, g / f"pairs.{pair}.{number}", x)
        parts.append(x)
    last = normed_convolution(spec.norm_of(spec.size), 1, 1, act, g / "last", op.Concat(*parts, axis=1))
    y = channels_normed(spec.norm, g, last)
    return y
