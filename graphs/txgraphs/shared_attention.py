"""Attention over the keys and values of an earlier layer."""

import onnx_ir as ir

from txexport.spec import SharedAttentionSpec
from txgraphs._component import Body, component
from txgraphs.attention import heads_of, mixed_heads
from txgraphs.linear import linear
from txgraphs.position import asked


@component("y", "weights")
def shared_attention(
    spec: SharedAttentionSpec,
    weighted: bool,
    g: Body,
    x: ir.Value,
    mask: ir.Value | None,
    cos: ir.Value | None,
    sin: ir.Value | None,
    k: ir.Value,
    v: ir.Value,
    logits_indices: ir.Value | None = None,
    filled: ir.Value | None = None,
    single: ir.Value | None = None,
    **fewer: ir.Value,
) -> tuple[ir.Value, ...]:
    """Attention of new tokens over what an earlier layer has cached (Brandon et al. 2024, 3.1).

    x (B,S,W), mask (B,1,S,T), cos and sin (B,S,R), k and v (B,K,T,H) -> y (B,S,W), and where `weighted`
    weights (B,N,S,T). The other inputs as those of cached_attention.
    """
    kind = spec.attention
    first, last = (logits_indices, None) if filled is None else (None, logits_indices)
    turns = asked(g, cos, first), asked(g, sin, first)  # (B, L, R)
    q = heads_of(kind, g, "q", asked(g, x, first), *turns)  # (B, N, L, H)
    mixed, *weights = mixed_heads(kind, weighted, g, q, k, v, mask, filled, single, fewer)
    y = linear(kind.output_bias, g / "o", asked(g, mixed, last))  # (B, L, W)
    return y, *weights
