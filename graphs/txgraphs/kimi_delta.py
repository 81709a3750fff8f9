"""Kimi delta attention: linear attention with a delta rule that decays channels apart."""

import onnx_ir as ir

from txexport.spec import KimiDeltaSpec
from txgraphs._component import Body, component
from txgraphs.activation import softplus
from txgraphs.causal_convolution import causal_convolution
from txgraphs.channel_delta_rule import channel_delta_rule
from txgraphs.gated_delta import normalised
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked


@component("y", "conv", "recurrent")
def kimi_delta(
    spec: KimiDeltaSpec,
    g: Body,
    x: ir.Value,
    conv: ir.Value,
    recurrent: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Each token decays the rows of a matrix of each head, corrects it and reads it (Kimi Team 2025, 3).

    x (B,S,W), conv (B,3*V*D,P), recurrent (B,V,D,D), real (B,S,1) is 0 for padding, ends (B) -> y (B,S,W),
    conv, recurrent. With logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op, last = g.op, g.op.Constant(value_ints=[3])
    heads = op.Constant(value_ints=[0, 0, spec.num_delta_heads, spec.head_dim])
    parts = [linear(False, g / name, x) for name in ("query", "key", "value")]
    inputs = op.Mul(op.Concat(*parts, axis=2), real, name="inputs")  # (B, S, 3*V*D)
    mixed, conv = causal_convolution(spec.kernel, False, g / "convolution", inputs, conv, ends)
    activated = op.Mul(mixed, op.Sigmoid(mixed))
    parts = op.Split(activated, op.Constant(value_ints=[spec.width] * 3), axis=2, name=["q", "k", "v"])
    q, k, v = (op.Reshape(part, heads) for part in parts)  # (B, S, V, D)
    beta = op.Mul(op.Sigmoid(linear(False, g / "beta", x)), real)
    beta = op.Unsqueeze(beta, last, name="beta")  # (B, S, V, 1)
    steps = linear(False, g / "decay_up", linear(False, g / "decay_down", x))
    steps = op.Mul(g.call(softplus, op.Add(steps, g.weight("step"))), real)  # (B, S, V*D)
    rate = op.Unsqueeze(op.Neg(op.Exp(g.weight("rate"))), op.Constant(value_ints=[1]))  # (V, 1)
    decay = op.Mul(rate, op.Reshape(steps, heads), name="decay")  # (B, S, V, D)
    scale = op.Constant(value_float=spec.head_dim**-0.5)
    queries, keys = op.Mul(g.call(normalised, q), scale, name="queries"), g.call(normalised, k)
    read, recurrent = channel_delta_rule(g, queries, keys, v, decay, beta, recurrent)  # (B, S, V, D)
    flat = op.Reshape(read, op.Constant(value_ints=[0, 0, -1]))
    read, x = (asked(g, one, logits_indices) for one in (flat, x))  # (B, L, V*D)
    normed = norm(spec.norm, g / "head_norm", op.Reshape(read, heads))  # (B, L, V, D)
    normed = op.Reshape(normed, op.Constant(value_ints=[0, 0, -1]))
    gate = op.Sigmoid(linear(False, g / "gate_up", linear(False, g / "gate_down", x)), name="gate")
    gated = op.Mul(normed, gate, name="gated")  # (B, L, V*D)
    return linear(False, g / "output", gated), conv, recurrent
