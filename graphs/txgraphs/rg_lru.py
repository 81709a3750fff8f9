"""Gated linear recurrences, in place of attention."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import RgLruSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.activation import activation, softplus
from txgraphs.causal_convolution import causal_convolution
from txgraphs.grouped_linear import grouped_linear
from txgraphs.linear import linear
from txgraphs.linear_recurrence import linear_recurrence
from txgraphs.position import asked

FLOAT = ir.DataType.FLOAT
FASTEST, ONE, TWO = float32(-8.0), float32(1.0), float32(2.0)


@component("y", "conv", "recurrent")
def rg_lru(
    spec: RgLruSpec,
    g: Body,
    x: ir.Value,
    conv: ir.Value,
    recurrent: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    first: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """A recurrent block with a real-gated linear recurrent unit (De et al. 2024, 2.3 and 2.4).

    x (B,S,W), conv (B,R,K), recurrent (B,R), real (B,S,1) is 0 for padding, ends (B), first (B,S,1) is true
    for the first token of a row -> y (B,S,W), conv, recurrent. With logits_indices (B,L), y (B,L,W) is of
    these tokens only.

    Decays are close to 1: they and the recurrence need float32 whatever the graph computes with.
    """
    op, width, blocks = g.op, spec.width, spec.num_blocks
    projected = op.Mul(linear(True, g / "project", x), real, name="projected")  # (B, S, R)
    inputs, conv = causal_convolution(spec.kernel, True, g / "convolution", projected, conv, ends)
    gate = _cast(g, grouped_linear(width, True, blocks, g / "recurrent_gate", inputs), FLOAT)
    rate, tokens = _cast(g, g.weight("rate"), FLOAT), _cast(g, real, FLOAT)
    decay, scale = g.call(decays, gate, rate, tokens, first)  # (B, S, R)
    opened = op.Sigmoid(grouped_linear(width, True, blocks, g / "input_gate", inputs), name="opened")
    added = op.Mul(op.Mul(inputs, opened), real, name="added")
    added = op.Mul(_cast(g, added, FLOAT), scale, name="scaled")
    read, recurrent = linear_recurrence(g, decay, added, _cast(g, recurrent, FLOAT))  # (B, S, R)
    read, recurrent = _cast(g, read, g.dtype), _cast(g, recurrent, g.dtype)
    read, x = (asked(g, one, logits_indices) for one in (read, x))  # (B, L, R)
    opened = g.call(activation(spec.activation), linear(True, g / "gate", x), name="activated")
    return linear(True, g / "output", op.Mul(read, opened, name="gated")), conv, recurrent


def _cast(g: Body, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """x in a number type; as it is in a graph of float32."""
    return x if g.dtype == FLOAT else g.op.Cast(x, to=dtype)


@script(domain, default_opset=op)
def decays(gate, rate, real, first):
    """The decay a of each channel, and the scale of what is added to it.

    a = exp(-8 sigmoid(gate) softplus(rate)), and the scale is sqrt(1 - a²), for the first token of a row 1;
    padding decays nothing. gate (B,S,R), rate (R), real and first (B,S,1) -> both (B,S,R).
    """
    one = op.Constant(value=ONE)
    logarithm = op.Constant(value=FASTEST) * op.Sigmoid(gate) * softplus(rate)
    decay = op.Exp(logarithm * real)
    scale = op.Where(first, one, op.Sqrt(one - op.Exp(op.Constant(value=TWO) * logarithm)))
    return decay, scale
