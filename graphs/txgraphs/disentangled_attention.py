"""Multi-head attention of contents and of relative positions."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import DisentangledAttentionSpec, RelativeVectorsSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import merge, split
from txgraphs.linear import linear
from txgraphs.mask import biased_mask
from txgraphs.norm import norm
from txgraphs.scaled_dot_product_attention import biased_mix, scores, weighted_sum


@cache
def _near(spec: RelativeVectorsSpec) -> OnnxFunction:
    """weight (2*span,W), input_ids (B,S) -> its P rows that S tokens need (P,W), places (S,S) there."""
    numbers, last, span = spec.bucket_of_distance(), spec.max_distance, spec.span

    @script(domain, default_opset=op)
    def near_vectors(weight, input_ids):
        table, one = op.Constant(value_ints=numbers), op.Constant(value_ints=[1])  # (max_distance + 1)
        limit, middle = op.Constant(value_ints=[last]), op.Constant(value_ints=[span])
        length = op.Shape(input_ids, start=1, end=2)
        tokens = op.Range(op.Constant(value_int=0), op.Squeeze(length), op.Constant(value_int=1))  # (S)
        apart = op.Unsqueeze(tokens, one) - tokens  # (S, S)
        buckets = op.Gather(table, op.Min(op.Abs(apart), limit)) * op.Sign(apart)
        reach = op.Gather(table, op.Min(length - one, limit))  # (1)
        vectors = op.Slice(weight, middle - reach, middle + reach + one, op.Constant(value_ints=[0]))
        places = op.Min(buckets, middle - one) + reach
        return vectors, places

    return near_vectors


@component("vectors", "of_query", "of_key")
def relative_vectors(
    spec: RelativeVectorsSpec, g: Body, input_ids: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Vectors of relative positions, which all layers project (He et al. 2021, 3.1).

    input_ids (B,S) -> the P vectors that S tokens need (1,P,W), of_query and of_key (S,S). For query s and
    key t, whose vector is p: of_query is the flat index of (s, p) among S rows of P numbers, of_key that of
    (t, p).
    """
    op = g.op
    near, places = g.call(_near(spec), g.weight("weight"), input_ids)  # (P, W), (S, S)
    if spec.norm is not None:
        near = norm(spec.norm, g / "norm", near)
    vectors = op.Unsqueeze(near, op.Constant(value_ints=[0]), name="vectors")  # (1, P, W)
    length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
    tokens = op.Range(op.Constant(value_int=0), length, op.Constant(value_int=1))  # (S)
    rows = op.Mul(tokens, op.Shape(vectors, start=1, end=2), name="rows")  # (S)
    of_query = op.Add(op.Unsqueeze(rows, op.Constant(value_ints=[1])), places, name="of_query")
    of_key = op.Add(rows, places, name="of_key")
    return vectors, of_query, of_key


@script(domain, default_opset=op)
def together(x, vectors):
    """x (B,S,W), vectors (1,P,W) -> all in one row (1,B*S+P,W), so that a matrix is read once for both."""
    shape = op.Concat(op.Constant(value_ints=[1, -1]), op.Shape(x, start=2), axis=0)
    y = op.Concat(op.Reshape(x, shape), vectors, axis=1)
    return y


@script(domain, default_opset=op)
def apart(y, x):
    """Projected rows (1,B*S+P,W) of `together`, x (B,S,...) -> contents (B,S,W), positions (1,P,W)."""
    zero, one = op.Constant(value_ints=[0]), op.Constant(value_ints=[1])
    count = op.Shape(x, start=0, end=1) * op.Shape(x, start=1, end=2)
    shape = op.Concat(op.Shape(x, end=2), op.Constant(value_ints=[-1]), axis=0)
    contents = op.Reshape(op.Slice(y, zero, count, one), shape)
    positions = op.Slice(y, count, op.Shape(y, start=1, end=2), one)
    return contents, positions


@script(domain, default_opset=op)
def at_places(x, vectors, places, scale: float):
    """x (B,N,S,H), vectors (1,N,P,H), places (S,S) among S rows of P products -> products there (B,N,S,S)."""
    keys = op.Transpose(vectors * op.Constant(value_float=scale), perm=[0, 1, 3, 2])
    products = op.MatMul(x, keys)  # (B, N, S, P)
    y = op.Gather(op.Reshape(products, op.Constant(value_ints=[0, 0, -1])), places, axis=2)  # (B, N, S, S)
    return y


def mixed_with_bias(
    weighted: bool, g: Body, q: ir.Value, k: ir.Value, v: ir.Value, bias: ir.Value, scale: float
) -> tuple[ir.Value, ...]:
    """q, k and v (B,N,S,H), bias (B,N,S,S) -> mixed values (B,S,N*H), and if `weighted` weights (B,N,S,S)."""
    if not weighted:
        return (g.call(merge, g.call(biased_mix, q, k, v, bias, scale=scale), name="mixed"),)
    op = g.op
    weights = op.Softmax(op.Add(g.call(scores, q, k, scale=scale), bias), axis=-1, name="weights")
    return g.call(merge, g.call(weighted_sum, weights, v), name="mixed"), weights


@component("y", "weights")
def disentangled_attention(
    spec: DisentangledAttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value,
    vectors: ir.Value,
    of_query: ir.Value,
    of_key: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of contents to contents and to relative positions (He et al. 2021, 3.1).

    x (B,S,W), mask (B,1,S,S), relative positions (1,P,W), of_query and of_key (S,S) as in `relative_vectors`
    -> y (B,S,W), and where `weighted` weights (B,N,S,S).
    """
    op, scale = g.op, spec.scale
    q, q_position = _projected(spec, g, "q", spec.position_to_content, x, vectors)
    k, k_position = _projected(spec, g, "k", spec.content_to_position, x, vectors)
    v = g.call(split, linear(True, g / "v", x), op.Constant(value_ints=[0, 0, spec.num_heads, -1]))
    terms = []
    if k_position is not None:
        terms.append(g.call(at_places, q, k_position, of_query, scale=scale))  # (B, N, S, S)
    if q_position is not None:
        terms.append(g.call(at_places, k, q_position, of_key, scale=scale))  # (B, N, S, S)
    bias = g.call(biased_mask, terms[0] if len(terms) == 1 else op.Add(*terms), mask)  # (B, N, S, S)
    mixed, *weights = mixed_with_bias(weighted, g, q, k, v, bias, scale)  # (B, S, N*H)
    return linear(True, g / "o", mixed), *weights  # (B, S, W)


def _projected(
    spec: DisentangledAttentionSpec, g: Body, name: str, related: bool, x: ir.Value, vectors: ir.Value
) -> tuple[ir.Value, ir.Value | None]:
    """x (B,S,W), vectors (1,P,W) -> heads of queries or keys (B,N,S,H), and of positions (1,N,P,H)."""
    heads = g.op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    if not related:
        return g.call(split, linear(True, g / name, x), heads), None
    if spec.shared:
        contents, positions = g.call(apart, linear(True, g / name, g.call(together, x, vectors)), x)
    else:
        contents, positions = linear(True, g / name, x), linear(True, g / f"{name}_position", vectors)
    return g.call(split, contents, heads), g.call(split, positions, heads)
