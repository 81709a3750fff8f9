"""A convolution and a batch norm (He et al. 2016, 3.4)."""

import onnx_ir as ir

from txexport.spec import BatchNormSpec
from txgraphs._component import Body, component
from txgraphs.batch_norm import batch_norm


@component("y")
def convolution_norm(outputs: int, kernel: int, stride: int, eps: float, g: Body, x: ir.Value) -> ir.Value:
    """A convolution without a bias, and a batch norm.

    x (B,inputs,height,width) -> y (B,outputs,height/stride,width/stride), rounded up.
    """
    around, strides = [kernel // 2] * 4, [stride] * 2
    convolved = g.op.Conv(x, g.weight("convolution.weight"), pads=around, strides=strides, name="convolved")
    y = batch_norm(BatchNormSpec(outputs, eps), g / "norm", convolved)
    return y
