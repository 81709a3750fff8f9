"""A layer that reads the embedded tokens again, beside the hidden states."""

import onnx_ir as ir

from txexport.spec import BlockSpec, Cache
from txgraphs._component import Body, component
from txgraphs._sublayers import CACHED_ATTENTIONS, FEED_FORWARDS, STATEFUL
from txgraphs.linear import linear
from txgraphs.norm import norm


@component("y", "k", "v", "state", "second_state", "weights")
def joined_block(
    spec: BlockSpec,
    weighted: bool,
    cache: Cache,
    g: Body,
    x: ir.Value,
    states: dict[str, ir.Value],
    embedded: ir.Value,
    **context: ir.Value | None,
) -> tuple[ir.Value, ...]:
    """Attention and a network over states joined with embeddings, then states (Glorioso et al. 2024, 2).

    x (B,S,W), inputs of the sublayer with states, embedded (B,S,W), other inputs of attention -> y (B,S,W), k
    and v (B,K,T,H), the states, and if `weighted` weights (B,N,S,T).
    """
    op, attend, mix = g.op, CACHED_ATTENTIONS[type(spec.attention)], STATEFUL[type(spec.beside)]
    joined = op.Concat(x, embedded, axis=2, name="joined")  # (B, S, 2W)
    inner = norm(spec.input_norm, g / "attention_norm", joined)
    mixed, k, v, *weights = attend(spec.attention, weighted, cache, g / "attention", inner, **context)
    read = norm(spec.norm, g / "feed_forward_norm", mixed)
    fed = FEED_FORWARDS[type(spec.feed_forward)](spec.feed_forward, g / "feed_forward", read)
    total = op.Add(x, linear(False, g / "project", fed), name="total")
    inner = norm(spec.norm, g / "beside_norm", total)
    changed, *present = mix(spec.beside, g / "beside", inner, **states)
    y = op.Add(x, changed)  # (B, S, W)
    return y, k, v, *present, *weights
