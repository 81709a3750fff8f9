"""The position-wise network of a block."""

import onnx_ir as ir

from txexport.spec import FeedForwardSpec
from txgraphs._component import Body, component
from txgraphs.activation import activation
from txgraphs.linear import linear


@component("y")
def feed_forward(spec: FeedForwardSpec, g: Body, x: ir.Value) -> ir.Value:
    """Up, non-linearity, down (Vaswani et al. 2017, 3.3); or gated (Shazeer 2020, 2): x (B,S,W) -> y."""
    act = activation(spec.activation)
    if spec.clip is not None:
        high, low, one = (g.op.Constant(value_float=number) for number in (spec.clip, -spec.clip, 1.0))
        gate = g.op.Min(linear(spec.bias, g / "gate", x), high)
        up = g.op.Clip(linear(spec.bias, g / "up", x), low, high)
        wide = g.op.Mul(g.call(act, gate), g.op.Add(up, one), name="wide")  # (B, S, F)
    elif spec.gated:
        gate = g.call(act, linear(spec.bias, g / "gate", x))
        wide = g.op.Mul(gate, linear(spec.bias, g / "up", x), name="wide")  # (B, S, F)
    else:
        wide = g.call(act, linear(spec.bias, g / "up", x), name="wide")  # (B, S, F)
    y = linear(spec.bias, g / "down", wide)  # (B, S, W)
    return y
