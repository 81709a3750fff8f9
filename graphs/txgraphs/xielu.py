"""A feed-forward network whose activation has learned numbers (Huang and Schlag 2024, xIELU)."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import XieluFeedForwardSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import softplus
from txgraphs.linear import linear


@script(domain, default_opset=op)
def _expm1(x):
    """exp(x) - 1, as exactly where x is small: tanh(x / 2) (exp(x) + 1)."""
    half, one = op.CastLike(op.Constant(value_float=0.5), x), op.CastLike(op.Constant(value_float=1.0), x)
    y = op.Tanh(x * half) * (op.Exp(x) + one)
    return y


@component("y")
def xielu(g: Body, x: ir.Value) -> ir.Value:
    """The integral of ELU and of a line, each with a learned slope (Huang and Schlag 2024, 3).

    x (B,S,F) -> y (B,S,F).
    """
    op = g.op
    zero, half, least = (op.Constant(value_float=number) for number in (0.0, 0.5, -1e-6))
    beside = op.Mul(x, half, name="beside")
    positive = op.Mul(op.Mul(x, x), g.call(softplus, g.weight("alpha_p")), name="positive")
    below = g.call(_expm1, op.Min(x, least), name="below")
    slope = op.Add(g.call(softplus, g.weight("alpha_n")), half, name="slope")
    negative = op.Mul(op.Sub(below, x), slope, name="negative")
    y = op.Add(op.Where(op.Greater(x, zero), positive, negative), beside)
    return y


@component("y")
def xielu_feed_forward(spec: XieluFeedForwardSpec, g: Body, x: ir.Value) -> ir.Value:
    """Up, xIELU, down: x (B,S,W) -> y (B,S,W)."""
    wide = xielu(g / "act", linear(False, g / "up", x))  # (B, S, F)
    y = linear(False, g / "down", wide)  # (B, S, W)
    return y
