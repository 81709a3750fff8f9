"""State-space layers, in place of attention."""

import numpy as np
import onnx_ir as ir

from txexport.spec import Mamba2Spec, NormSpec
from txgraphs._component import Body, component
from txgraphs.activation import softplus
from txgraphs.causal_convolution import causal_convolution
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked
from txgraphs.state_space import state_space


@component("y", "conv", "ssm")
def mamba2(
    spec: Mamba2Spec,
    g: Body,
    x: ir.Value,
    conv: ir.Value,
    ssm: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Each token decays a matrix of each head, adds its inputs to it and reads it (Dao and Gu 2024, 6).

    x (B,S,W), conv (B,H*P+2*G*D,K), ssm (B,H,P,D), real (B,S,1) is 0 for padding, ends (B) -> y (B,S,W),
    conv, ssm. With logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op, count, last = g.op, spec.num_state_heads, g.op.Constant(value_ints=[3])
    sizes = op.Constant(value_ints=[spec.inner_size, sum(spec.widths), count])
    projected = linear(spec.bias, g / "project", x)
    gate, inputs, steps = op.Split(projected, sizes, axis=2, name=["gate", "inputs", "steps"])
    place, biased = g / "convolution", spec.convolution_bias
    mixed, conv = causal_convolution(spec.kernel, biased, place, op.Mul(inputs, real), conv, ends)
    widths = op.Constant(value_ints=list(spec.widths))
    mixed = op.Mul(mixed, op.Sigmoid(mixed))  # (B, S, H*P+2*G*D)
    x, b, c = op.Split(mixed, widths, axis=2, name=["x", "b", "c"])
    heads = op.Reshape(x, op.Constant(value_ints=[0, 0, count, -1]), name="heads")  # (B, S, H, P)
    groups = op.Constant(value_ints=[0, 0, spec.num_groups, -1])
    b, c = (op.Reshape(one, groups) for one in (b, c))  # (B, S, G, D)
    steps = op.Mul(g.call(softplus, op.Add(steps, g.weight("step"))), real)  # (B, S, H)
    decay = op.Mul(op.Neg(op.Exp(g.weight("rate"))), steps)
    steps, decay = (op.Unsqueeze(one, last) for one in (steps, decay))  # (B, S, H, 1)
    read, ssm = state_space(count, spec.num_groups, g, heads, b, c, steps, decay, ssm)  # (B, S, H, P)
    skip = op.Unsqueeze(g.weight("skip"), op.Constant(value_ints=[1]))
    read = op.Reshape(op.Add(read, op.Mul(skip, heads)), op.Constant(value_ints=[0, 0, -1]))  # (B, S, H*P)
    read, gate = (asked(g, one, logits_indices) for one in (read, gate))  # (B, L, H*P)
    gated = _gated(spec, g, read, op.Mul(gate, op.Sigmoid(gate)))
    return linear(spec.bias, g / "output", gated), conv, ssm


def _gated(spec: Mamba2Spec, g: Body, x: ir.Value, gate: ir.Value) -> ir.Value:
    """x and gate (B,L,H*P) -> y (B,L,H*P)."""
    if spec.norm is not None and not spec.gate_first:
        x = grouped_norm(spec.norm, spec.num_groups, g / "gated_norm", x)
    y = g.op.Mul(x, gate, name="gated")
    if spec.norm is not None and spec.gate_first:
        y = grouped_norm(spec.norm, spec.num_groups, g / "gated_norm", y)
    return y


@component("y")
def grouped_norm(spec: NormSpec, groups: int, g: Body, x: ir.Value) -> ir.Value:
    """A root mean square over each group's part, and one scale of all: x (B,L,H*P) -> y (B,L,H*P)."""
    if groups == 1:
        return norm(spec, g, x)
    op, size = g.op, spec.size // groups
    parts = op.Reshape(x, op.Constant(value_ints=[0, 0, groups, -1]))  # (B, L, G, H/G*P)
    one = op.CastLike(op.Constant(value=np.ones(size, np.float32)), x)
    normed = op.RMSNormalization(parts, one, epsilon=spec.eps)
    y = op.Mul(op.Reshape(normed, op.Constant(value_ints=[0, 0, -1])), g.weight("weight"))
    return y
