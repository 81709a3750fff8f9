"""Images as the maps of several stages of an HGNetV2 (Peng et al. 2024, A.1)."""

import onnx_ir as ir
from onnxscript import script

from txexport.parts.inputs.hgnet_levels import stages
from txexport.spec import HGNetLevelsSpec, HGNetStageSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.convolution_norm import convolution_norm, depthwise_norm


@script(domain, default_opset=op)
def affine(x, weight, bias):
    """A learned factor and a learned addend of all numbers."""
    y = weight * x + bias
    return y


@component("y")
def relu_convolution(
    affine: bool, outputs: int, kernel: int, stride: int, eps: float, g: Body, x: ir.Value
) -> ir.Value:
    """A convolution with a batch norm, ReLU, and if `affine` a factor and an addend.

    x (B,inputs,R,C) -> y (B,outputs,R/stride,C/stride).
    """
    y = g.op.Relu(convolution_norm(outputs, kernel, stride, eps, g / "part", x))
    return _moved(g, y) if affine else y


@component("y")
def light_convolution(affine: bool, outputs: int, kernel: int, eps: float, g: Body, x: ir.Value) -> ir.Value:
    """A 1 by 1 convolution, and a depthwise convolution followed by ReLU.

    x (B,inputs,R,C) -> y (B,outputs,R,C).
    """
    point = convolution_norm(outputs, 1, 1, eps, g / "point", x)
    y = g.op.Relu(depthwise_norm(outputs, kernel, 1, eps, g / "part", point))
    return _moved(g, y) if affine else y


def _moved(g: Body, y: ir.Value) -> ir.Value:
    """`y` with a learned factor and addend."""
    result: ir.Value = g.call(affine, y, g.weight("affine.weight"), g.weight("affine.bias"))
    return result


@component("y")
def aggregation_block(
    spec: HGNetStageSpec, affine: bool, residual: bool, eps: float, g: Body, x: ir.Value
) -> ir.Value:
    """Convolutions one after another, joined with what they read, and projected twice.

    x (B,inputs,R,C) -> y (B,size,R,C).
    """
    maps = [x]
    for layer in range(spec.layers):
        place = g / f"layers.{layer}"
        if spec.light:
            maps.append(light_convolution(affine, spec.inner, spec.kernel, eps, place, maps[-1]))
        else:
            maps.append(relu_convolution(affine, spec.inner, spec.kernel, 1, eps, place, maps[-1]))
    squeezed = relu_convolution(affine, spec.size // 2, 1, 1, eps, g / "squeeze", g.op.Concat(*maps, axis=1))
    y = relu_convolution(affine, spec.size, 1, 1, eps, g / "excite", squeezed)
    return g.op.Add(y, x) if residual else y


@component("y")
def hgnet_stem(spec: HGNetLevelsSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """The stem, which divides an image's sides by 4: two 2 by 2 convolutions beside a 2 by 2 max pooling.

    pixel_values (B,channels,height,width) -> x (B,stem_size,height/4,width/4).
    """
    op, inner, affine, eps = g.op, spec.stem, spec.affine, spec.eps
    around = op.Constant(value_ints=[0, 0, 0, 0, 0, 0, 1, 1])
    x = op.Pad(relu_convolution(affine, inner, 3, 2, eps, g / "first", pixel_values), around)
    narrow = relu_convolution(affine, inner // 2, 2, 1, eps, g / "narrow", x)
    beside = relu_convolution(affine, inner, 2, 1, eps, g / "wide", op.Pad(narrow, around))
    largest = op.MaxPool(x, kernel_shape=[2, 2], strides=[1, 1], name="largest")
    joined = relu_convolution(affine, inner, 3, 2, eps, g / "joined", op.Concat(largest, beside, axis=1))
    y = relu_convolution(affine, spec.stem_size, 1, 1, eps, g / "last", joined)
    return y


@component("level_0", "level_1", "level_2", "level_3")
def hgnet_levels_embedding(spec: HGNetLevelsSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """The maps of the last stages of an HGNetV2, each projected (Peng et al. 2024, A.1).

    pixel_values (B,channels,height,width) -> levels (B,W,R,C), the finest first.
    """
    x, maps, number, affine, eps = hgnet_stem(spec, g / "stem", pixel_values), [], 0, spec.affine, spec.eps
    for part, (inputs, stage) in enumerate(stages(spec)):
        if stage.halved:
            x = depthwise_norm(inputs, 3, 2, eps, g / f"halves.{part}", x)
        for block in range(stage.blocks):
            x = aggregation_block(stage, affine, block > 0, eps, g / f"blocks.{number}", x)
            number += 1
        maps.append(x)
    return tuple(
        convolution_norm(spec.hidden_size, 1, 1, eps, g / f"project.{level}", x)
        for level, x in enumerate(maps[len(maps) - spec.levels :])
    )


embedding = hgnet_levels_embedding
