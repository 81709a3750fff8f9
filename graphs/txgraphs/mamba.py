"""Selective state spaces, in place of attention."""

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from txexport.spec import MambaSpec
from txgraphs._component import Body, component
from txgraphs.activation import softplus
from txgraphs.causal_convolution import causal_convolution
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked
from txgraphs.selective_scan import selective_scan


@component("y", "conv", "ssm")
def mamba(
    spec: MambaSpec,
    g: Body,
    x: ir.Value,
    conv: ir.Value,
    ssm: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Each token decays the state of each channel, adds its input to it and reads it (Gu and Dao 2023).

    x (B,S,W), conv (B,I,K), ssm (B,I,D), real (B,S,1) is 0 for padding, ends (B) -> y (B,S,W), conv, ssm.
    With logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op, halves = g.op, g.op.Constant(value_ints=[spec.inner_size] * 2)
    projected = linear(spec.bias, g / "project", x)
    inputs, gate = op.Split(projected, halves, axis=2, name=["inputs", "gate"])  # (B, S, I)
    place, biased = g / "convolution", spec.convolution_bias
    mixed, conv = causal_convolution(spec.kernel, biased, place, op.Mul(inputs, real), conv, ends)
    x = op.Mul(mixed, op.Sigmoid(mixed), name="x")  # (B, S, I)
    selected, widths = linear(False, g / "select", x), op.Constant(value_ints=list(spec.widths))
    parts = op.Split(selected, widths, axis=2, name=["steps", "b", "c"])
    steps, b, c = _normalised(spec, g, parts)  # (B, S, R), (B, S, D)
    steps = op.Mul(g.call(softplus, linear(True, g / "step", steps)), real, name="steps")  # (B, S, I)
    rate = op.Neg(op.Exp(g.weight("rate")))
    written = op.Mul(x, steps, name="written")
    read, ssm = g.call(selective_scan, written, steps, b, c, rate, ssm, name="scanned")  # (B, S, I)
    read = op.Add(read, op.Mul(g.weight("skip"), x))
    read, gate = (asked(g, one, logits_indices) for one in (read, gate))  # (B, L, I)
    gated = op.Mul(read, op.Mul(gate, op.Sigmoid(gate)), name="gated")
    return linear(spec.bias, g / "output", gated), conv, ssm


def _normalised(spec: MambaSpec, g: Body, parts: Sequence[ir.Value]) -> list[ir.Value]:
    """The step's numbers (B,S,R), b and c (B,S,D) -> normalised, or as they are."""
    if spec.norms is None:
        return [scaled(spec.norm_eps, g, one, size) for one, size in zip(parts, spec.widths, strict=True)]
    names = "step_norm", "b_norm", "c_norm"
    return [norm(kind, g / name, one) for kind, name, one in zip(spec.norms, names, parts, strict=True)]


def scaled(eps: float | None, g: Body, x: ir.Value, size: int) -> ir.Value:
    """x (B,S,D) -> (B,S,D) of root mean square 1, or as it is."""
    if eps is None:
        return x
    one = g.op.CastLike(g.op.Constant(value=np.ones(size, np.float32)), x)
    return g.op.RMSNormalization(x, one, epsilon=eps)
