"""Gated linear recurrences, in place of attention."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import RgLruSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import activation, softplus
from txgraphs.causal_convolution import causal_convolution
from txgraphs.grouped_linear import grouped_linear
from txgraphs.linear import linear
from txgraphs.linear_recurrence import linear_recurrence
from txgraphs.position import asked


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
    """
    op, width, blocks = g.op, spec.width, spec.num_blocks
    projected = op.Mul(linear(True, g / "project", x), real, name="projected")  # (B, S, R)
    inputs, conv = causal_convolution(spec.kernel, True, g / "convolution", projected, conv, ends)
    gate = grouped_linear(width, True, blocks, g / "recurrent_gate", inputs)
    decay, scale = g.call(decays, gate, g.weight("rate"), real, first)  # (B, S, R)
    opened = op.Sigmoid(grouped_linear(width, True, blocks, g / "input_gate", inputs), name="opened")
    added = op.Mul(op.Mul(inputs, opened), real, name="added")
    added = op.Mul(added, scale, name="scaled")
    read, recurrent = linear_recurrence(g, decay, added, recurrent)  # (B, S, R)
    read, x = (asked(g, one, logits_indices) for one in (read, x))  # (B, L, R)
    opened = g.call(activation(spec.activation), linear(True, g / "gate", x), name="activated")
    return linear(True, g / "output", op.Mul(read, opened, name="gated")), conv, recurrent


@script(domain, default_opset=op)
def decays(gate, rate, real, first):
    """The decay a of each channel, and the scale of what is added to it.

    a = exp(-8 sigmoid(gate) softplus(rate)), and the scale is sqrt(1 - a²), for the first token of a row 1;
    padding decays nothing. gate (B,S,R), rate (R), real and first (B,S,1) -> both (B,S,R).
    """
    one, two = op.Constant(value_float=1.0), op.Constant(value_float=2.0)
    logarithm = op.Constant(value_float=-8.0) * op.Sigmoid(gate) * softplus(rate)
    decay = op.Exp(logarithm * real)
    scale = op.Where(first, one, op.Sqrt(one - op.Exp(two * logarithm)))
    return decay, scale
