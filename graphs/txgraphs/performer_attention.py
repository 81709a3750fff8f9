"""Multi-head attention whose exponentials are expected products of random features."""

import onnx_ir as ir

from txexport.spec import PerformerAttentionSpec
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear

LOWEST = -3.0e38
LEAST = 1.0e-30  # the least divisor, for a row without tokens


@component("products", "halves")
def features(spec: PerformerAttentionSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """M random directions, and the exponents of positive features (Choromanski et al. 2021, 2.3 and 2.4).

    x (B,N,S,H) -> products (B,N,S,M), halves (B,N,S,1) of the squared lengths.
    """
    op = g.op
    scaled = op.Mul(x, op.Constant(value_float=spec.head_dim**-0.25))
    products = op.MatMul(scaled, op.Transpose(g.weight("weight"), perm=[1, 0]))
    squares = op.ReduceSum(op.Mul(scaled, scaled), op.Constant(value_ints=[-1]), keepdims=1)
    halves = op.Mul(squares, op.Constant(value_float=0.5))
    return products, halves


@component("y")
def performer_attention(
    spec: PerformerAttentionSpec, g: Body, x: ir.Value, attention_mask: ir.Value
) -> ir.Value:
    """Attention without scores of pairs: keys and values are summed first (Choromanski et al. 2021, 2.2).

    x (B,S,W), attention_mask (B,S) of 0 and 1 -> y (B,S,W).
    """
    op, heads = g.op, g.op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    one, epsilon = op.Constant(value_ints=[1]), op.Constant(value_float=spec.epsilon)
    real = op.Unsqueeze(attention_mask, op.Constant(value_ints=[1, 3]))  # (B, 1, S, 1)
    # (B, N, S, M), (B, N, S, 1)
    products, halves = features(spec, g / "features", g.call(split, linear(spec.bias, g / "q", x), heads))
    most, _ = op.TopK(products, one, name=["most_of_query", "place"])  # (B, N, S, 1)
    q = op.Add(op.Exp(op.Sub(op.Sub(products, halves), most)), epsilon)  # (B, N, S, M)
    products, halves = features(spec, g / "features", g.call(split, linear(spec.bias, g / "k", x), heads))
    products = op.Where(op.Cast(real, to=ir.DataType.BOOL), products, op.Constant(value_float=LOWEST))
    flat = op.Reshape(products, op.Constant(value_ints=[0, 0, 1, -1]))  # (B, N, 1, S*M)
    most, _ = op.TopK(flat, one, name=["most_of_keys", "places"])  # (B, N, 1, 1)
    k = op.Add(op.Exp(op.Sub(op.Sub(products, halves), most)), epsilon)
    k = op.Mul(k, op.Cast(real, to=g.dtype))  # (B, N, S, M)
    v = g.call(split, linear(spec.bias, g / "v", x), heads)  # (B, N, S, H)
    keys = op.Transpose(k, perm=[0, 1, 3, 2])  # (B, N, M, S)
    sums = op.MatMul(keys, v)  # (B, N, M, H)
    shares = op.MatMul(q, op.ReduceSum(keys, op.Constant(value_ints=[-1]), keepdims=1))  # (B, N, S, 1)
    shares = op.Max(shares, op.Constant(value_float=LEAST))
    mixed = g.call(merge, op.Div(op.MatMul(q, sums), shares), name="mixed")  # (B, S, N*H)
    y = linear(spec.bias, g / "o", mixed)  # (B, S, W)
    return y
