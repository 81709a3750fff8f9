"""Linear attention with a gated delta rule, in place of attention."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import GatedDeltaSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.activation import softplus
from txgraphs.causal_convolution import causal_convolution
from txgraphs.delta_rule import delta_rule
from txgraphs.linear import linear
from txgraphs.norm import norm
from txgraphs.position import asked


@component("y", "conv", "recurrent")
def gated_delta(
    spec: GatedDeltaSpec,
    g: Body,
    x: ir.Value,
    conv: ir.Value,
    recurrent: ir.Value,
    real: ir.Value,
    ends: ir.Value,
    logits_indices: ir.Value | None = None,
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Each token decays a matrix of each head, corrects it and reads it (Yang et al. 2024, 3.1).

    x (B,S,W), conv (B,2*K*D+V*E,P), recurrent (B,V,D,E), real (B,S,1) is 0 for padding, ends (B) -> y
    (B,S,W), conv, recurrent. With logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    op, values, last = g.op, spec.num_value_heads, g.op.Constant(value_ints=[3])
    parts = [linear(False, g / name, x) for name in ("query", "key", "value")]
    inputs = op.Mul(op.Concat(*parts, axis=2), real, name="inputs")  # (B, S, 2*K*D+V*E)
    mixed, conv = causal_convolution(spec.kernel, False, g / "convolution", inputs, conv, ends)
    widths = op.Constant(value_ints=list(spec.widths))
    q, k, v = op.Split(op.Mul(mixed, op.Sigmoid(mixed)), widths, axis=2, name=["q", "k", "v"])
    q, k = (_keys(spec, g, one) for one in (q, k))  # (B, S, V, D)
    v = op.Reshape(v, op.Constant(value_ints=[0, 0, values, spec.value_dim]))  # (B, S, V, E)
    beta = op.Mul(op.Sigmoid(linear(False, g / "beta", x)), real)
    beta = op.Unsqueeze(beta, last, name="beta")  # (B, S, V, 1)
    beta = op.Mul(op.Constant(value_float=2.0), beta, name="twice") if spec.negative_eigenvalues else beta
    steps = g.call(softplus, op.Add(linear(False, g / "decay", x), g.weight("step")))  # (B, S, V)
    decay = op.Mul(op.Mul(op.Neg(op.Exp(g.weight("rate"))), steps), real)
    decay = op.Unsqueeze(decay, last, name="decay")  # (B, S, V, 1)
    scale = op.Constant(value_float=spec.key_dim**-0.5)
    read, recurrent = delta_rule(g, op.Mul(q, scale), k, v, decay, beta, recurrent)  # (B, S, V, E)
    flat = op.Reshape(read, op.Constant(value_ints=[0, 0, -1]))
    read, x = (asked(g, one, logits_indices) for one in (flat, x))  # (B, L, V*E)
    heads = op.Reshape(read, op.Constant(value_ints=[0, 0, values, spec.value_dim]))  # (B, L, V, E)
    normed = op.Reshape(norm(spec.norm, g / "head_norm", heads), op.Constant(value_ints=[0, 0, -1]))
    gate = linear(False, g / "gate", x)
    gated = op.Mul(normed, op.Mul(gate, op.Sigmoid(gate)), name="gated")  # (B, L, V*E)
    return linear(False, g / "output", gated), conv, recurrent


def _keys(spec: GatedDeltaSpec, g: Body, x: ir.Value) -> ir.Value:
    """x (B,S,K*D) -> (B,S,V,D) of length 1, each for the heads of values that share it."""
    op, shared = g.op, spec.num_value_heads // spec.num_key_heads
    heads = g.call(
        normalised, op.Reshape(x, op.Constant(value_ints=[0, 0, spec.num_key_heads, spec.key_dim]))
    )
    if shared == 1:
        return heads
    each = op.Unsqueeze(heads, op.Constant(value_ints=[3]))  # (B, S, K, 1, D)
    several = op.Expand(each, op.Constant(value_ints=[1, 1, 1, shared, 1]))
    return op.Reshape(several, op.Constant(value_ints=[0, 0, spec.num_value_heads, spec.key_dim]))


@script(domain, default_opset=op)
def normalised(x):
    """x (...,D) -> vectors of length 1."""
    size = op.ReduceSum(x * x, op.Constant(value_ints=[-1]))
    small = op.CastLike(op.Constant(value_float=1e-6), x)
    y = x / op.Sqrt(size + small)
    return y
