"""Images as the maps of several stages of a residual network (He et al. 2019, 4.1)."""

import onnx_ir as ir

from txexport.parts.inputs.resnet_levels import layers
from txexport.spec import ResNetLevelsSpec
from txgraphs._component import Body, component
from txgraphs.inputs.resnet import convolution_norm, residual_layer


@component("level_0", "level_1", "level_2", "level_3")
def resnet_levels_embedding(spec: ResNetLevelsSpec, g: Body, pixel_values: ir.Value) -> tuple[ir.Value, ...]:
    """The maps of the last stages of a residual network, each projected (He et al. 2019, 4.1).

    pixel_values (B,channels,height,width) -> levels (B,W,R,C), the finest first.
    """
    op, half, eps = g.op, spec.stem // 2, spec.eps
    x, levels = pixel_values, []
    for number, (outputs, stride) in enumerate(((half, 2), (half, 1), (spec.stem, 1))):
        x = op.Relu(convolution_norm(outputs, 3, stride, eps, g / f"stem.{number}", x))
    x = op.MaxPool(x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], name="pooled")
    for number, layer in enumerate(layers(spec)):
        x = residual_layer(spec, *layer.sizes[1:], g / f"layers.{number}", x)
        if layer.level is not None:
            projected = convolution_norm(spec.hidden_size, 1, 1, eps, g / f"project.{layer.level}", x)
            levels.append(projected)
    return tuple(levels)


embedding = resnet_levels_embedding
