"""Multi-head attention of contents, sinusoids of distances, and equality of segments."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import SinusoidVectorsSpec, TransformerXLAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs._constants import float32
from txgraphs.attention import split
from txgraphs.disentangled_attention import at_places, mixed_with_bias
from txgraphs.linear import linear
from txgraphs.mask import biased_mask
from txgraphs.scaled_dot_product_attention import scores


@cache
def sinusoid_vectors(spec: SinusoidVectorsSpec, dtype: ir.DataType) -> OnnxFunction:
    """input_ids (B,S) -> vectors of the P distances of a query after a key (1,P,W), of_query (S,S).

    of_query is the place of query s and the distance from it to key t, among S rows of P numbers. As angles
    of tokens, these need float32.
    """
    numbers = float32(spec.frequencies)
    clamped, most, least = spec.clamp is not None, spec.clamp or 0, -(spec.clamp or 0)
    interleaved, shape = spec.interleaved, [1, -1, 2 * len(spec.frequencies)]
    kind, narrow = int(dtype), dtype != ir.DataType.FLOAT

    @script(domain, default_opset=op)
    def sinusoid_vectors(input_ids):
        zero, one, column = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[1])
        length = op.Squeeze(op.Shape(input_ids, start=1, end=2))
        tokens = op.Range(zero, length, one)  # (S)
        distances = op.Range(one - length, length, one)  # (P)
        if clamped:
            distances = op.Min(op.Max(distances, op.Constant(value_int=least)), op.Constant(value_int=most))
        angles = op.Cast(op.Unsqueeze(distances, column), to=1) * op.Constant(value=numbers)  # (P, W / 2)
        if interleaved:
            last = op.Constant(value_ints=[2])
            pairs = op.Concat(op.Unsqueeze(op.Sin(angles), last), op.Unsqueeze(op.Cos(angles), last), axis=2)
            vectors = op.Reshape(pairs, op.Constant(value_ints=shape))
        else:
            vectors = op.Unsqueeze(
                op.Concat(op.Sin(angles), op.Cos(angles), axis=1), op.Constant(value_ints=[0])
            )
        if narrow:
            vectors = op.Cast(vectors, to=kind)  # (1, P, W)
        places = op.Unsqueeze(tokens, column) - tokens + (length - one)  # (S, S)
        of_query = op.Unsqueeze(tokens, column) * (length + length - one) + places
        return vectors, of_query

    return sinusoid_vectors


@script(domain, default_opset=op)
def other_segments(token_type_ids):
    """token_type_ids (B,S) -> apart (B,1,S,S): true where a key is of another segment than the query."""
    queries = op.Unsqueeze(token_type_ids, op.Constant(value_ints=[1, 3]))  # (B, 1, S, 1)
    apart = op.Not(op.Equal(queries, op.Unsqueeze(token_type_ids, op.Constant(value_ints=[1, 2]))))
    return apart


@component("y", "weights")
def transformer_xl_attention(
    spec: TransformerXLAttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    vectors: ir.Value,
    of_query: ir.Value,
    apart: ir.Value | None = None,
) -> tuple[ir.Value, ...]:
    """Attention of contents to contents, distances (Dai et al. 2019, 3.3) and segments (Yang et al. 2019).

    x (B,S,W), mask and apart (B,1,S,S), distances (1,P,W), of_query (S,S) as `sinusoid_vectors` gives them
    -> y (B,S,W), and where `weighted` weights (B,N,S,S).
    """
    op, scale, q = g.op, spec.scale, linear(spec.bias, g / "q", x)
    heads = op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    contents = g.call(split, op.Add(q, g.weight("content_bias")), heads)  # (B, N, S, H)
    k = g.call(split, linear(spec.bias, g / "k", x), heads)
    v = g.call(split, linear(spec.bias, g / "v", x), heads)
    distances = g.call(split, linear(False, g / "k_position", vectors), heads)  # (1, N, P, H)
    placed = g.call(split, op.Add(q, g.weight("position_bias")), heads)
    related = g.call(at_places, placed, distances, of_query, scale=scale)  # (B, N, S, S)
    if apart is not None:
        rows = op.Unsqueeze(g.weight("segment.weight"), op.Constant(value_ints=[0]))
        segments = g.call(split, rows, heads)  # (1, N, 2, H)
        segmented = g.call(split, op.Add(q, g.weight("segment_bias")), heads)
        both = g.call(scores, segmented, segments, scale=scale)  # (B, N, S, 2)
        same = op.Gather(both, op.Constant(value_ints=[0]), axis=3, name="same")  # (B, N, S, 1)
        other = op.Gather(both, op.Constant(value_ints=[1]), axis=3, name="other")
        related = op.Add(related, op.Where(apart, other, same))
    bias = related if mask is None else g.call(biased_mask, related, mask)  # (B, N, S, S)
    mixed, *weights = mixed_with_bias(weighted, g, contents, k, v, bias, scale)  # (B, S, N*H)
    return linear(spec.bias, g / "o", mixed), *weights  # (B, S, W)
