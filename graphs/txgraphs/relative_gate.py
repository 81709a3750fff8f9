"""Gates of a relative position bias (Chen et al. 2022)."""

import onnx_ir as ir

from txexport.spec import AttentionSpec
from txgraphs._component import Body, component
from txgraphs.linear import linear
from txgraphs.mask import biased_mask


@component("gated")
def relative_gate(
    spec: AttentionSpec, g: Body, x: ir.Value, relative: ir.Value, mask: ir.Value | None = None
) -> ir.Value:
    """Gates of a relative position bias, of each query and head (Chen et al. 2022, 3.1).

    x (B,S,W), relative bias (B,N,S,S) or (1,N,S,S), mask (B,1,S,S) or None -> gated (B,N,S,S).
    Half of the numbers of a query and head are summed for each of its two gates.
    """
    op = g.op
    heads = op.Reshape(x, op.Constant(value_ints=[0, 0, spec.num_heads, -1]))  # (B, S, N, W / N)
    parts = op.Reshape(linear(True, g / "project", heads), op.Constant(value_ints=[0, 0, 0, 2, -1]))
    sums = op.ReduceSum(parts, op.Constant(value_ints=[4]), keepdims=0)  # (B, S, N, 2)
    gates = op.Sigmoid(op.Transpose(sums, perm=[0, 2, 1, 3]))  # (B, N, S, 2)
    update, reset = (op.Gather(gates, op.Constant(value_ints=[gate]), axis=3) for gate in range(2))
    one, two = (op.CastLike(op.Constant(value_float=number), x) for number in (1.0, 2.0))
    opened = op.Sub(op.Mul(reset, g.weight("constant")), one)
    gated = op.Mul(op.Add(op.Mul(update, opened), two), relative)
    return gated if mask is None else g.call(biased_mask, gated, mask)
