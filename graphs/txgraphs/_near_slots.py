"""Attention of windows over a static cache, of which few slots are seen."""

from functools import cache

import onnx_ir as ir
from onnxscript import OnnxFunction, script

from txexport.spec import AttentionSpec
from txgraphs import domain, op
from txgraphs._component import Body, component
from txgraphs.scaled_dot_product_attention import scaled_dot_product_attention


@cache
def near_slots(window: int) -> OnnxFunction:
    """Of new tokens in `slots` (B,S) of past_k (B,K,C,H) -> first (1), end (1), few (1).

    No query sees a slot before the `first` one, or from `end` on; `few` tells whether half of the slots or
    more are not seen.
    """
    reach = window - 1

    @script(domain, default_opset=op)
    def near_slots(slots, past_k):
        flat, zero = op.Constant(value_ints=[-1]), op.Constant(value_ints=[0])
        least, most = op.Reshape(op.ReduceMin(slots), flat), op.Reshape(op.ReduceMax(slots), flat)
        first = op.Max(least - op.Constant(value_ints=[reach]), zero)
        end = most + op.Constant(value_ints=[1])
        few = op.LessOrEqual((end - first) * op.Constant(value_ints=[2]), op.Shape(past_k, start=2, end=3))
        return first, end, few

    return near_slots


def few_or_all(
    spec: AttentionSpec,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value,
    single: ir.Value | None,
    slots: dict[str, ir.Value],
) -> ir.Value:
    """As `all_heads`, over the slots of `near_slots` alone if they are `few`."""
    return g.either(
        slots["few"],
        lambda: near_heads(spec, g, q, k, v, mask, single, slots["first"], slots["end"]),
        lambda: all_heads(spec, g, q, k, v, mask, single),
    )


@component("heads")
def all_heads(
    spec: AttentionSpec,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value,
    single: ir.Value | None,
) -> ir.Value:
    """As `scaled_dot_product_attention`."""
    [heads] = scaled_dot_product_attention(spec, False, g, q, k, v, mask, single)
    return heads


@component("heads")
def near_heads(
    spec: AttentionSpec,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value,
    single: ir.Value | None,
    first: ir.Value,
    end: ir.Value,
) -> ir.Value:
    """As `all_heads`, over the slots from `first` (1) up to `end` (1) alone."""
    slots, keys = (g.op.Constant(value_ints=[axis]) for axis in (2, 3))
    k, v = (g.op.Slice(cached, first, end, slots) for cached in (k, v))  # (B, K, end - first, H)
    [heads] = scaled_dot_product_attention(
        spec, False, g, q, k, v, g.op.Slice(mask, first, end, keys), single
    )
    return heads
