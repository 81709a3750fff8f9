"""Images as maps of convolutions in residual stages (He et al. 2016, 4.1)."""

import onnx_ir as ir

from txexport.spec import ResNetLevelsSpec, ResNetSpec
from txexport.spec.resnet import REDUCTION
from txgraphs._component import Body, component
from txgraphs.convolution_norm import convolution_norm


@component("y")
def residual_layer(
    spec: ResNetSpec | ResNetLevelsSpec,
    outputs: int,
    stride: int,
    projected: bool,
    pooled: bool,
    g: Body,
    x: ir.Value,
) -> ir.Value:
    """Two convolutions, or three as a bottleneck, in a residual (He et al. 2016, 3.3 and 4.1).

    A `pooled` residual is halved by means of 2 by 2 places (He et al. 2019, 4.1).
    x (B,inputs,height,width) -> y (B,outputs,height/stride,width/stride), rounded up.
    """
    inner, eps = outputs // REDUCTION, spec.eps
    parts = (
        [(inner, 1, 1), (inner, 3, stride), (outputs, 1, 1)]
        if spec.bottleneck
        else [(outputs, 3, stride), (outputs, 3, 1)]
    )
    y = x
    for number, part in enumerate(parts):
        y = convolution_norm(*part, eps, g / f"parts.{number}", g.op.Relu(y) if number else y)
    if pooled:
        x = g.op.AveragePool(x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, name="pooled")
    if projected:
        x = convolution_norm(outputs, 1, 1 if pooled else stride, eps, g / "shortcut", x)
    y = g.op.Relu(g.op.Add(y, x))
    return y


@component("x")
def resnet_embedding(spec: ResNetSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """The last map of a residual network, projected (He et al. 2016, 4.1).

    pixel_values (B,channels,height,width) -> x (B,R,C,W).
    """
    x, *_ = _maps(spec, g, pixel_values)
    return x


@component("x", "map_0", "map_1", "map_2", "map_3", "map_4", "map_5", "map_6")
def resnet_maps(spec: ResNetSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """The last map of a residual network, projected, and those of all stages but the last.

    pixel_values (B,channels,height,width) -> x (B,R,C,W), maps (B,r,c,size), the finest first.
    """
    x, *finer = _maps(spec, g, pixel_values)
    return x, *(g.op.Transpose(one, perm=[0, 2, 3, 1]) for one in finer)


def _maps(spec: ResNetSpec, g: Body, pixel_values: ir.Value) -> list[ir.Value]:
    """The last map, projected (B,R,C,W), and those of all stages but the last (B,size,r,c)."""
    op, (*finer, last) = g.op, stage_maps(spec, g, pixel_values)
    projected = op.Conv(last, g.weight("project.weight"), g.weight("project.bias"), name="projected")
    return [op.Transpose(projected, perm=[0, 2, 3, 1]), *finer]


def stage_maps(spec: ResNetSpec, g: Body, pixel_values: ir.Value) -> list[ir.Value]:
    """The maps of all stages (B,size,R,C), the finest first."""
    op, maps = g.op, []
    stem = op.Relu(convolution_norm(spec.stem, 7, 2, spec.eps, g / "stem", pixel_values))
    x = op.MaxPool(stem, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="pooled")
    number, inputs = 0, spec.stem
    for stage, (depth, size) in enumerate(zip(spec.depths, spec.sizes, strict=True)):
        for layer in range(depth):
            stride = 2 if stage and not layer else 1
            projected = inputs != size or stride != 1
            x = residual_layer(spec, size, stride, projected, False, g / f"layers.{number}", x)
            number, inputs = number + 1, size
        maps.append(x)
    return maps


embedding = resnet_embedding
