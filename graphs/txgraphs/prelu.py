"""A feed-forward network whose activation has a learned slope (He et al. 2015, 2.1)."""

import onnx_ir as ir

from txgraphs._component import Body, component
from txgraphs.linear import linear


@component("y")
def prelu(g: Body, x: ir.Value) -> ir.Value:
    """Numbers below 0 multiplied by one learned slope.

    x (B,S,F) -> y (B,S,F).
    """
    y: ir.Value = g.op.PRelu(x, g.weight("weight"))
    return y


@component("y")
def prelu_feed_forward(width: int, inner: int, g: Body, x: ir.Value) -> ir.Value:
    """Up, PReLU, down.

    x (B,S,W) -> y (B,S,W).
    """
    y = linear(True, g / "down", prelu(g / "act", linear(True, g / "up", x)))
    return y
