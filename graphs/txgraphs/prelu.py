"""PReLU, an activation with a learned slope (He et al. 2015, 2.1)."""

import onnx_ir as ir

from txgraphs._component import Body, component


@component("y")
def prelu(g: Body, x: ir.Value) -> ir.Value:
    """Numbers below 0 multiplied by one learned slope.

    x (B,S,F) -> y (B,S,F).
    """
    y: ir.Value = g.op.PRelu(x, g.weight("weight"))
    return y
