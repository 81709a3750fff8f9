"""Inputs of layers with states beside the vectors of new tokens."""

import onnx_ir as ir

from txexport.spec import TextStackSpec
from txgraphs._graph import Graph
from txgraphs.mask import counted_tokens, first_slots, first_tokens, masked_tokens
from txgraphs.position import positions


def new_tokens(
    spec: TextStackSpec,
    graph: Graph,
    input_ids: ir.Value,
    past_k: ir.Value | None,
    attention_mask: ir.Value | None,
    new_lengths: ir.Value | None,
    cache_lengths: ir.Value | None,
) -> dict[str, ir.Value]:
    """The inputs of layers with states: real (B,S,1) of the new tokens, and ends (B).

    Where a layer reads it, also `first` (B,S,1), true for the first token of a row. Over a static cache
    new_lengths (B) and cache_lengths (B) tell all of it, elsewhere the mask (B,P+S), or none for full rows.
    """
    op, ends = graph.op, new_lengths
    if attention_mask is None and new_lengths is None:
        none = op.Constant(value_ints=[0])
        attention_mask = ones(graph, input_ids, none if past_k is None else op.Shape(past_k, start=2, end=3))
    if new_lengths is not None:
        real = graph.call(counted_tokens, input_ids, new_lengths, name="real")
    else:
        real, ends = graph.call(masked_tokens, attention_mask, input_ids, name="new")
    assert ends is not None
    new = {"real": op.Cast(real, to=graph.dtype), "ends": ends}
    if not any("first" in block.new_tokens for block in spec.blocks):
        return new
    if new_lengths is not None:
        slots = graph.call(positions, input_ids, cache_lengths, name="slots")  # (B, S)
        return new | {"first": graph.call(first_slots, slots, name="first")}
    return new | {"first": graph.call(first_tokens, attention_mask, input_ids, name="first")}


def ones(graph: Graph, input_ids: ir.Value, length: ir.Value) -> ir.Value:
    """A mask (B,P+S) that hides nothing, of new tokens (B,S) behind P others."""
    op = graph.op
    batch, new = op.Shape(input_ids, start=0, end=1), op.Shape(input_ids, start=1, end=2)
    return op.Expand(graph.constant("one", [1]), op.Concat(batch, op.Add(length, new), axis=0))
