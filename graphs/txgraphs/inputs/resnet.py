"""Images as maps of convolutions in residual stages (He et al. 2016, 4.1)."""

import onnx_ir as ir

from txexport.spec import ResNetSpec
from txexport.spec.resnet import REDUCTION
from txgraphs._component import Body, component
from txgraphs.convolution_norm import convolution_norm


@component("y")
def residual_layer(
    spec: ResNetSpec, inputs: int, outputs: int, stride: int, g: Body, x: ir.Value
) -> ir.Value:
    """Two convolutions, or three as a bottleneck, in a residual (He et al. 2016, 3.3 and 4.1).

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
    if inputs != outputs or stride != 1:
        x = convolution_norm(outputs, 1, stride, eps, g / "shortcut", x)
    y = g.op.Relu(g.op.Add(y, x))
    return y


@component("x")
def resnet_embedding(spec: ResNetSpec, g: Body, pixel_values: ir.Value) -> ir.Value:
    """The last map of a residual network, projected (He et al. 2016, 4.1).

    pixel_values (B,channels,height,width) -> x (B,R,C,W).
    """
    op = g.op
    stem = op.Relu(convolution_norm(spec.stem, 7, 2, spec.eps, g / "stem", pixel_values))
    x = op.MaxPool(stem, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="pooled")
    number, inputs = 0, spec.stem
    for stage, (depth, size) in enumerate(zip(spec.depths, spec.sizes, strict=True)):
        for layer in range(depth):
            stride = 2 if stage and not layer else 1
            x = residual_layer(spec, inputs, size, stride, g / f"layers.{number}", x)
            number, inputs = number + 1, size
    projected = op.Conv(x, g.weight("project.weight"), g.weight("project.bias"), name="projected")
    x = op.Transpose(projected, perm=[0, 2, 3, 1])
    return x


embedding = resnet_embedding
