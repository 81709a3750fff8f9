"""Attention over a static cache of which a window leaves few slots."""

from typing import Any

import onnx_ir as ir

from txexport.spec import AttentionSpec
from txgraphs._component import Body, component
from txgraphs.scaled_dot_product_attention import scaled_dot_product_attention


@component("heads")
def few_or_all(
    spec: AttentionSpec,
    g: Body,
    first: ir.Value,
    end: ir.Value,
    few: ir.Value,
    **read: Any,
) -> ir.Value:
    """Scaled dot-product attention of `read`, over the slots of `near_slots` if they are `few`, else all.

    `verify` looks into functions without branches only, so this one holds nothing else.
    """
    return g.either(
        few,
        lambda: heads_of_slots(spec, g, first, end, **read),
        lambda: heads_of_slots(spec, g, None, None, **read),
    )


@component("heads")
def heads_of_slots(
    spec: AttentionSpec,
    g: Body,
    first: ir.Value | None,
    end: ir.Value | None,
    q: ir.Value,
    k: ir.Value,
    v: ir.Value,
    mask: ir.Value,
    single: ir.Value | None,
) -> ir.Value:
    """As `scaled_dot_product_attention`, over the slots from `first` (1) up to `end` (1), or over all."""
    if first is not None:
        slots, keys = (g.op.Constant(value_ints=[axis]) for axis in (2, 3))
        k, v = (g.op.Slice(cached, first, end, slots) for cached in (k, v))  # (B, K, end - first, H)
        mask = g.op.Slice(mask, first, end, keys)
    [heads] = scaled_dot_product_attention(spec, False, g, q, k, v, mask, single)
    return heads
