"""A convolution and a batch norm (He et al. 2016, 3.4)."""

import onnx_ir as ir

from txexport.spec import BatchNormSpec
from txgraphs._component import Body, component
from txgraphs.batch_norm import batch_norm


@component("y")
def convolution_norm(outputs: int, kernel: int, stride: int, eps: float, g: Body, x: ir.Value) -> ir.Value:
    """A convolution without a bias, and a batch norm; one of 2 by 2 places has no padding.

    x (B,inputs,height,width) -> y (B,outputs,height/stride,width/stride), rounded up.
    """
    around, strides = [(kernel - 1) // 2] * 4, [stride] * 2
    convolved = g.op.Conv(x, g.weight("convolution.weight"), pads=around, strides=strides, name="convolved")
    y = batch_norm(BatchNormSpec(outputs, eps), g / "norm", convolved)
    return y


@component("y")
def depthwise_norm(size: int, kernel: int, stride: int, eps: float, g: Body, x: ir.Value) -> ir.Value:
    """A convolution of each channel alone without a bias, and a batch norm (Howard et al. 2017, 3.1).

    x (B,size,height,width) -> y (B,size,height/stride,width/stride), rounded up.
    """
    weight, sliding = g.weight("convolution.weight"), {"pads": [kernel // 2] * 4, "strides": [stride] * 2}
    convolved = g.op.Conv(x, weight, **sliding, group=size, name="convolved")
    y = batch_norm(BatchNormSpec(size, eps), g / "norm", convolved)
    return y
