"""Multi-head attention of contents, and of a learned vector for each distance of a key from the query."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import RelativeKeyAttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.attention import split
from txgraphs.disentangled_attention import at_places, mixed_with_bias
from txgraphs.linear import linear
from txgraphs.mask import biased_mask


@cache
def clipped_distances(spec: RelativeKeyAttentionSpec) -> OnnxFunction:
    """x (B,S,W) -> of_query (S,S): flat index of query s and its distance to key t, among S rows of P."""
    left, right, count = spec.left, spec.right, spec.distances

    @script(domain, default_opset=op)
    def clipped_distances(x):
        zero, one, column = op.Constant(value_int=0), op.Constant(value_int=1), op.Constant(value_ints=[1])
        tokens = op.Range(zero, op.Squeeze(op.Shape(x, start=1, end=2)), one)  # (S)
        apart = tokens - op.Unsqueeze(tokens, column)  # (S, S)
        least, most = op.Constant(value_int=0 - left), op.Constant(value_int=right)
        distances = op.Min(op.Max(apart, least), most)  # (S, S)
        rows = op.Unsqueeze(tokens, column) * op.Constant(value_int=count)
        of_query = rows + (distances - least)
        return of_query

    return clipped_distances


@component("y", "weights")
def relative_key_attention(
    spec: RelativeKeyAttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    of_query: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of contents to contents and to distances (Shaw et al. 2018, 3.2).

    x (B,S,W), mask (B,1,S,S), of_query (S,S) of `clipped_distances` -> y (B,S,W), and if `weighted` weights
    (B,N,S,S).
    """
    op, scale = g.op, spec.scale
    heads = op.Constant(value_ints=[0, 0, spec.num_heads, -1])
    q = g.call(split, linear(True, g / "q", x), heads)  # (B, N, S, H)
    k = g.call(split, linear(True, g / "k", x), heads)
    v = g.call(split, linear(True, g / "v", x), heads)
    distances = op.Unsqueeze(g.weight("distance.weight"), op.Constant(value_ints=[0, 1]))  # (1, 1, P, H)
    related = g.call(at_places, q, distances, of_query, scale=scale)
    bias = related if mask is None else g.call(biased_mask, related, mask)  # (B, N, S, S)
    mixed, *weights = mixed_with_bias(weighted, g, q, k, v, bias, scale)  # (B, S, N*H)
    return linear(True, g / "o", mixed), *weights  # (B, S, W)
