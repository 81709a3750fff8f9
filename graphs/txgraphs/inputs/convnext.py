"""Images as maps of depthwise convolutions and networks, in stages (Liu et al. 2022, 2)."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import ConvNextSpec
from txexport.spec.convnext import KERNEL, MERGED, RESPONSE_EPS
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.activation import activation
from txgraphs.linear import linear
from txgraphs.norm import norm


@script(domain, default_opset=op)
def response_norm(x, weight, bias):
    """Channels by their responses to a whole map, as shares of the mean response (Woo et al. 2023, 3.2).

    x (B,R,C,F) -> y (B,R,C,F).
    """
    wide = op.Cast(x, to=1)  # a sum of squares over a map is too large for float16
    responses = op.Sqrt(op.ReduceSum(wide * wide, op.Constant(value_ints=[1, 2])))  # (B, 1, 1, F)
    channels = op.Cast(op.Shape(x, start=3), to=1)
    mean = op.ReduceSum(responses, op.Constant(value_ints=[-1])) / channels
    shares = responses / (mean + op.Constant(value=float32(RESPONSE_EPS)))
    y = weight * (x * op.CastLike(shares, x)) + bias + x
    return y


@component("y")
def convnext_layer(spec: ConvNextSpec, size: int, g: Body, x: ir.Value) -> ir.Value:
    """A depthwise convolution, a norm and a network, in a residual (Liu et al. 2022, 2.6).

    x (B,R,C,W) -> y (B,R,C,W).
    """
    op, around = g.op, [KERNEL // 2] * 4
    weights = g.weight("convolution.weight"), g.weight("convolution.bias")
    channels = op.Transpose(x, perm=[0, 3, 1, 2])
    convolved = op.Transpose(op.Conv(channels, *weights, pads=around, group=size), perm=[0, 2, 3, 1])
    normed = norm(spec.norm(size), g / "norm", convolved)
    wide = g.call(activation(spec.activation), linear(True, g / "up", normed), name="wide")  # (B, R, C, F)
    if spec.responses:
        wide = g.call(response_norm, wide, g.weight("responses.weight"), g.weight("responses.bias"))
    mixed = linear(True, g / "down", wide)  # (B, R, C, W)
    y = op.Add(x, op.Mul(mixed, g.weight("scale")) if spec.scaled else mixed)
    return y


@component("y")
def convnext_merging(spec: ConvNextSpec, inputs: int, g: Body, x: ir.Value) -> ir.Value:
    """A norm, and squares of places projected to one each (Liu et al. 2022, 2.6).

    x (B,R,C,W) -> y (B,R/2,C/2,outputs), rounded down.
    """
    op, weights = g.op, (g.weight("project.weight"), g.weight("project.bias"))
    channels = op.Transpose(norm(spec.norm(inputs), g / "norm", x), perm=[0, 3, 1, 2])
    y = op.Transpose(op.Conv(channels, *weights, strides=[MERGED] * 2, name="merged"), perm=[0, 2, 3, 1])
    return y


@component("map_0", "map_1", "map_2", "map_3", "map_4", "map_5", "map_6", "map_7")
def convnext_embedding(spec: ConvNextSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """The maps of all stages of a ConvNeXt (Liu et al. 2022, 2).

    pixel_values (B,channels,height,width) -> maps (B,R,C,size), the finest first.
    """
    op, weights = g.op, (g.weight("project.weight"), g.weight("project.bias"))
    grid = op.Conv(pixel_values, *weights, strides=[spec.patch_size] * 2, name="grid")
    x = norm(spec.norm(spec.sizes[0]), g / "norm", op.Transpose(grid, perm=[0, 2, 3, 1]))  # (B, R, C, W)
    layer, maps = 0, []
    for stage, (depth, size) in enumerate(zip(spec.depths, spec.sizes, strict=True)):
        if stage:
            x = convnext_merging(spec, spec.sizes[stage - 1], g / f"mergings.{stage - 1}", x)
        for _ in range(depth):
            x = convnext_layer(spec, size, g / f"layers.{layer}", x)
            layer += 1
        maps.append(norm(spec.norm(size), g / f"map_norms.{stage}", x) if spec.map_norms else x)
    return tuple(maps)


embedding = convnext_embedding
