"""Attention of windows over a static cache, of which few slots are seen."""

import onnx_ir as ir

from txexport.spec import AttentionSpec
from txgraphs._component import Body, component
from txgraphs.scaled_dot_product_attention import scaled_dot_product_attention


@component("heads")
def few_or_all(
    spec: AttentionSpec,
    g: Body,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value,
    single: ir.Value | None,
    first: ir.Value,
    end: ir.Value,
    few: ir.Value,
) -> ir.Value:
    """As `all_heads`, over the slots of `near_slots` alone if they are `few`."""
    return g.either(
        few,
        lambda: near_heads(spec, g, q, k, v, mask, single, first, end),
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
