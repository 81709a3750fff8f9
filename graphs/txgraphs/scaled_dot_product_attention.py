"""Scaled dot-product attention: scores, their masks, soft cap and sinks, softmax, weighted sum."""

import onnx_ir as ir
from onnxscript import script

from txexport.spec import AttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body


@script(domain, default_opset=op)
def own_mix(q, k, v, mask, scale: float):
    """q (B,N,S,H), k and v (B,N,T,H), mask (B,1,S,T) -> (B,N,S,H); every head has keys of its own."""
    mixed = op.Attention(q, k, v, mask, scale=scale)
    return mixed


@script(domain, default_opset=op)
def plain_mix(q, k, v, scale: float):
    """q (B,N,S,H), k (B,N,T,H), v (B,N,T,V) -> (B,N,S,V); every query sees every key of its head."""
    mixed = op.Attention(q, k, v, scale=scale)
    return mixed


@script(domain, default_opset=op)
def biased_mix(q, k, v, bias, scale: float):
    """q (B,N,S,H), k and v (B,N,T,H), numbers (B,N,S,T) to add to the scores -> (B,N,S,H)."""
    mixed = op.Attention(q, k, v, bias, scale=scale)
    return mixed


@script(domain, default_opset=op)
def capped_mix(q, k, v, mask, scale: float, softcap: float):
    """As the operator does it: scores s become softcap * tanh(s / softcap) (Bello et al. 2016, 3.2)."""
    mixed = op.Attention(q, k, v, mask, scale=scale, softcap=softcap)
    return mixed


@script(domain, default_opset=op)
def filled_mix(q, k, v, filled, single, rows, scale: float):
    """q (B,N,S,H), of a cache k and v (B,K,C,H), of which each row has filled (B) -> (B,S,N*H), causal.

    Where there is a `single` new token, the queries of the heads that share keys are rows = [0, K, -1, 0] of
    one product, so that the keys are read once.
    """
    if single:
        together = op.Attention(op.Reshape(q, rows), k, v, None, None, None, filled, scale=scale)
        mixed = op.Reshape(together, op.Constant(value_ints=[0, 1, -1]))
    else:
        heads = op.Attention(q, k, v, None, None, None, filled, is_causal=1, scale=scale)
        mixed = op.Reshape(op.Transpose(heads, perm=[0, 2, 1, 3]), op.Constant(value_ints=[0, 0, -1]))
    return mixed


@script(domain, default_opset=op)
def shared_mix(q, k, v, mask, single, rows, seen, heads, scale: float):
    """q (B,N,S,H), k and v (B,K,T,H), mask (B,1,S,T) -> (B,N,S,H).

    As `filled_mix`, where a mask says what is seen, by seen = [N/K, 1] queries at once; heads = [0, N, -1, 0]
    takes the product's rows apart.
    """
    if single:
        together = op.Attention(op.Reshape(q, rows), k, v, op.Expand(mask, seen), scale=scale)
        mixed = op.Reshape(together, heads)
    else:
        mixed = op.Attention(q, k, v, mask, scale=scale)
    return mixed


@script(domain, default_opset=op)
def scores(q, k, scale: float):
    """q (B,N,S,H), k (B,K,T,H) -> products (B,N,S,T) of queries with the keys that N/K of them share.

    This and what follows is attention in operators of every opset from 17 on, for graphs that give weights:
    the operator could, but ONNX's shape inference has it give those of no key where lengths are open.
    """
    shape = op.Concat(
        op.Shape(q, end=1),
        op.Shape(k, start=1, end=2),
        op.Constant(value_ints=[-1]),
        op.Shape(q, start=2),
        axis=0,
    )
    keys = op.Transpose(op.Unsqueeze(k, op.Constant(value_ints=[2])), perm=[0, 1, 2, 4, 3])
    products = op.MatMul(op.Reshape(q * op.Constant(value_float=scale), shape), keys)  # (B, K, N/K, S, T)
    y = op.Reshape(products, op.Concat(op.Shape(q, end=3), op.Shape(k, start=2, end=3), axis=0))
    return y


@script(domain, default_opset=op)
def capped(s, softcap: float):
    """Scores s (B,N,S,T) -> softcap * tanh(s / softcap) (Bello et al. 2016, 3.2)."""
    cap = op.Constant(value_float=softcap)
    y = op.Tanh(s / cap) * cap
    return y


@script(domain, default_opset=op)
def masked_softmax(s, mask):
    """Scores s (B,N,S,T), mask (B,1,S,T) -> weights (B,N,S,T); a query that sees nothing has none."""
    bias = op.Where(mask, op.Constant(value_float=0.0), op.Constant(value_float=-3.0e38))  # (B, 1, S, T)
    keys, one = op.Constant(value_ints=[-1]), op.Constant(value_float=1.0)
    sees = op.Min(op.ReduceSum(op.CastLike(mask, s), keys), one)  # (B, 1, S, 1)
    y = op.Softmax(s + bias, axis=-1) * sees
    return y


@script(domain, default_opset=op)
def sunk_softmax(s, mask, sinks):
    """As `masked_softmax`, with one more score of each head, sinks (N), then left out (OpenAI 2025)."""
    bias = op.Where(mask, op.Constant(value_float=0.0), op.Constant(value_float=-3.0e38))  # (B, 1, S, T)
    column = op.Reshape(sinks, op.Constant(value_ints=[1, -1, 1, 1]))
    last = op.Expand(
        column, op.Concat(op.Shape(s, end=3), op.Constant(value_ints=[1]), axis=0)
    )  # (B, N, S, 1)
    every = op.Softmax(op.Concat(s + bias, last, axis=-1), axis=-1)  # (B, N, S, T + 1)
    zero, end, keys = op.Constant(value_ints=[0]), op.Constant(value_ints=[-1]), op.Constant(value_ints=[3])
    y = op.Slice(every, zero, end, keys)
    return y


@script(domain, default_opset=op)
def weighted_sum(weights, v):
    """weights (B,N,S,T), v (B,K,T,H) -> (B,N,S,H)."""
    shape = op.Concat(
        op.Shape(weights, end=1),
        op.Shape(v, start=1, end=2),
        op.Constant(value_ints=[-1]),
        op.Shape(weights, start=2),
        axis=0,
    )
    values = op.Unsqueeze(v, op.Constant(value_ints=[2]))  # (B, K, 1, T, H)
    mixed = op.MatMul(op.Reshape(weights, shape), values)  # (B, K, N/K, S, H)
    y = op.Reshape(mixed, op.Concat(op.Shape(weights, end=3), op.Shape(v, start=3), axis=0))
    return y


def scaled_dot_product_attention(
    spec: AttentionSpec,
    weighted: bool,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value | None,
    single: ir.Value | None = None,
) -> tuple[ir.Value, ...]:
    """q (B,N,S,H), k and v (B,K,T,H), mask (B,1,S,T) -> (B,N,S,H), and where `weighted` weights (B,N,S,T).

    A query that sees nothing gets 0. `single` (1) may tell whether S is 1.
    """
    scale = scale_of(spec)
    if weighted or spec.sinks:
        weights = attention_weights(spec, g, g.call(scores, q, k, scale=scale), mask)
        mixed = g.call(weighted_sum, weights, v)
        return (mixed, weights) if weighted else (mixed,)
    if spec.has_position_bias:
        return (g.call(biased_mix, q, k, v, mask, scale=scale),)
    if spec.softcap is not None:
        return (g.call(capped_mix, q, k, v, mask, scale=scale, softcap=spec.softcap),)
    if spec.unmasked:
        return (g.op.Attention(q, k, v, scale=scale),)
    if not spec.shares_keys:
        return (g.call(own_mix, q, k, v, mask, scale=scale),)
    if single is None:
        return (g.op.Attention(q, k, v, mask, scale=scale),)
    rows, heads = (g.op.Constant(value_ints=[0, n, -1, 0]) for n in (spec.num_kv_heads, spec.num_heads))
    seen = g.op.Constant(value_ints=[spec.num_heads // spec.num_kv_heads, 1])
    return (g.call(shared_mix, q, k, v, mask, single, rows, seen, heads, scale=scale),)


def attention_weights(spec: AttentionSpec, g: Body, s: ir.Value, mask: ir.Value | None) -> ir.Value:
    """Scores s (B,N,S,T), mask (B,1,S,T) -> weights (B,N,S,T)."""
    if spec.has_position_bias:
        return g.op.Softmax(g.op.Add(s, mask), axis=-1, name="weights")
    if spec.softcap is not None:
        s = g.call(capped, s, softcap=spec.softcap)
    if spec.unmasked:
        return g.op.Softmax(s, axis=-1, name="weights")
    if spec.sinks:
        return g.call(sunk_softmax, s, mask, g.weight("sinks"), name="weights")
    return g.call(masked_softmax, s, mask, name="weights")


def scale_of(spec: AttentionSpec) -> float:
    return spec.head_dim**-0.5 if spec.scale is None else spec.scale
