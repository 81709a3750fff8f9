"""One layer of a stack: each sublayer in its residual and its norm."""

import onnx_ir as ir

from txexport.contracts import names
from txexport.spec import BlockSpec, Cache, DenseAndExpertsSpec, NormPlacement
from txgraphs._component import Body, component
from txgraphs._sublayers import (
    CACHED_ATTENTIONS,
    FEED_FORWARDS,
    SPARSE_ATTENTIONS,
    STATEFUL,
    WEIGHING_ATTENTIONS,
)
from txgraphs.adapter import adapter
from txgraphs.attention import cross_attention, shared_cross_attention
from txgraphs.augmented_residual import augmented_residual
from txgraphs.dense_and_experts import dense_and_experts
from txgraphs.gate import gate
from txgraphs.layer_inputs import layer_input
from txgraphs.norm import norm
from txgraphs.position import asked
from txgraphs.shared_attention import shared_attention
from txgraphs.streams import corrected_streams, predicted_streams, stream_router


@component("y", "weights")
def encoder_block(
    spec: BlockSpec, weighted: bool, g: Body, x: ir.Value, **context: ir.Value | None
) -> tuple[ir.Value, ...]:
    """Attention over the whole sequence, then feed-forward (Vaswani et al. 2017, 3.1).

    x (B,S,W), the other inputs of attention -> y (B,S,W), and if `weighted` weights (B,N,S,S). Among them are
    seen_k and seen_v (B,K,E,H) of an image to which the layer attends.
    """
    image = {"mask": None, "k": context.pop("seen_k", None), "v": context.pop("seen_v", None)}
    inner, weights = _before_attention(spec, g, x), []
    kind = type(spec.attention)
    if kind in WEIGHING_ATTENTIONS:
        attend = WEIGHING_ATTENTIONS[kind]
        mixed, *weights = attend(spec.attention, weighted, g / "attention", inner, **context)
    else:
        mixed = SPARSE_ATTENTIONS[kind](spec.attention, g / "attention", inner, **context)
    attended = _attended(spec, g, x, mixed)  # (B, S, W)
    if spec.cross_attention is not None:
        attended, *_ = _crossed(spec, weighted, Cache.DYNAMIC, g, attended, image)  # (B, S, W)
    y = _fed(spec, g, x, attended)  # (B, S, W)
    return y, *weights


@component("y", "k", "v", "weights", "cross_weights")
def decoder_block(
    spec: BlockSpec,
    weighted: bool,
    cache: Cache,
    g: Body,
    x: ir.Value,
    cross: dict[str, ir.Value | None] | None,
    **context: ir.Value | None,
) -> tuple[ir.Value, ...]:
    """Self-attention over a cache, cross-attention if there is an encoder, then feed-forward.

    x (B,S,W), the other inputs of attention, past_k and past_v (B,K,P,H) among them -> y (B,S,W), k and v
    (B,K,T,H), and if `weighted` weights (B,N,S,T). With an encoder, cross has its mask (B,1,S,E), k and v
    (B,K,E,H), and its weights (B,N,S,E) come last. With logits_indices (B,L), y (B,L,W) and masks are of
    these tokens only. Some layers read an input of their own, layer_input (B,S,P).
    """
    own_input, picks = _own_input(g, context), context.get(names.LOGITS_INDICES)
    x, streams = _predicted(spec, g, x)
    inner = _before_attention(spec, g, x)
    attend = CACHED_ATTENTIONS[type(spec.attention)]
    mixed, k, v, *weights = attend(spec.attention, weighted, cache, g / "attention", inner, **context)
    x, streams = asked(g, x, picks), asked(g, streams, picks)  # (B, L, W), (B, L, A, W)
    attended = _augmented(spec, g, _attended(spec, g, x, mixed), inner, picks)  # (B, S, W)
    if spec.cross_attention is not None:
        attended, *cross_weights = _crossed(spec, weighted, cache, g, attended, cross)  # (B, S, W)
        weights += cross_weights
    y = _ended(spec, g, _fed(spec, g, x, attended), own_input, streams)  # (B, S, W)
    return y, k, v, *weights


@component("y", "k", "v", "state", "second_state", "weights")
def hybrid_block(
    spec: BlockSpec,
    weighted: bool,
    cache: Cache,
    g: Body,
    x: ir.Value,
    states: dict[str, ir.Value],
    **context: ir.Value | None,
) -> tuple[ir.Value, ...]:
    """Self-attention over a cache and a sublayer with states, both over one norm, then feed-forward.

    x (B,S,W), inputs of the sublayer with states, and other inputs of attention -> y (B,S,W), k and v
    (B,K,T,H), the states, and if `weighted` weights (B,N,S,T). With logits_indices (B,L), y (B,L,W) and masks
    are of these tokens only.
    """
    inner, asked_for = _before_attention(spec, g, x), context.get(names.LOGITS_INDICES)
    attend, mix = CACHED_ATTENTIONS[type(spec.attention)], STATEFUL[type(spec.beside)]
    mixed, k, v, *weights = attend(spec.attention, weighted, cache, g / "attention", inner, **context)
    beside, *present = mix(spec.beside, g / "beside", inner, **states, logits_indices=asked_for)  # (B, L, W)
    x = asked(g, x, asked_for)  # (B, L, W)
    y = _fed(spec, g, x, _attended(spec, g, x, g.op.Add(mixed, beside, name="both")))  # (B, S, W)
    return y, k, v, *present, *weights


@component("y", "weights")
def shared_block(
    spec: BlockSpec, weighted: bool, g: Body, x: ir.Value, **context: ir.Value | None
) -> tuple[ir.Value, ...]:
    """Attention over the keys and values of an earlier layer, then feed-forward.

    x (B,S,W), the other inputs of attention, k and v (B,K,T,H) of that layer among them -> y (B,S,W), and if
    `weighted` weights (B,N,S,T). The other inputs as those of decoder_block.
    """
    own_input, picks = _own_input(g, context), context.get(names.LOGITS_INDICES)
    x, streams = _predicted(spec, g, x)
    inner = _before_attention(spec, g, x)
    mixed, *weights = shared_attention(spec.attention, weighted, g / "attention", inner, **context)
    x, streams = asked(g, x, picks), asked(g, streams, picks)  # (B, L, W), (B, L, A, W)
    attended = _augmented(spec, g, _attended(spec, g, x, mixed), inner, picks)  # (B, S, W)
    y = _ended(spec, g, _fed(spec, g, x, attended), own_input, streams)  # (B, S, W)
    return y, *weights


@component("y", "state", "second_state")
def stateful_block(spec: BlockSpec, g: Body, x: ir.Value, **context: ir.Value | None) -> tuple[ir.Value, ...]:
    """A sublayer with states in place of attention, then feed-forward, if there is any.

    x (B,S,W), the other inputs of the sublayer, its states among them -> y (B,S,W), the states. With
    logits_indices (B,L), y (B,L,W) is of these tokens only.
    """
    mix = STATEFUL[type(spec.attention)]
    mixed, *states = mix(spec.attention, g / "attention", _before_attention(spec, g, x), **context)
    x = asked(g, x, context.get(names.LOGITS_INDICES))  # (B, L, W)
    y = _fed(spec, g, x, _attended(spec, g, x, mixed))  # (B, S, W)
    return y, *states


def _predicted(spec: BlockSpec, g: Body, x: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """x (B,S,W), or streams (B,S,A,W) -> what sublayers read (B,S,W), and streams (B,S,A,W)."""
    if spec.streams is None:
        return x, None
    place = g / "streams"
    scores = stream_router(spec.streams, place / "router", _first(g, x))
    streams = predicted_streams(spec.streams, place / "predict", x, scores)  # (B, S, A, W)
    return _first(g, streams), streams


def _first(g: Body, streams: ir.Value) -> ir.Value:
    """streams (B,S,A,W) -> the first vector of each token (B,S,W)."""
    return g.op.Gather(streams, g.op.Constant(value_int=0), axis=2, name="first")


def _before_attention(spec: BlockSpec, g: Body, x: ir.Value) -> ir.Value:
    """x (B,S,W) -> the input of attention (B,S,W)."""
    if not spec.placement.before or spec.skip_attention_norm:
        return x
    return norm(spec.norm, g / "attention_norm", x)


def _attended(spec: BlockSpec, g: Body, x: ir.Value, mixed: ir.Value) -> ir.Value:
    """x (B,S,W) and the output of attention -> their residual sum (B,S,W)."""
    if spec.placement == NormPlacement.SANDWICH:
        mixed = norm(spec.norm, g / "attention_post_norm", mixed)
    elif spec.placement == NormPlacement.RES_POST:
        mixed = norm(spec.norm, g / "attention_norm", mixed)
    if spec.layer_scale:
        mixed = g.op.Mul(mixed, g.weight("attention_scale.weight"), name="mixed")
    if spec.gated:
        mixed = gate(g / "attention_tanh_gate", mixed)
    if spec.residual_scale != 1:
        mixed = g.op.Mul(mixed, g.op.Constant(value_float=spec.residual_scale), name="mixed")
    attended = g.op.Add(x, mixed, name="attended")  # (B, S, W)
    if spec.placement.after:
        attended = norm(spec.norm, g / "attention_norm", attended)
    if spec.placement == NormPlacement.DOUBLE_POST:
        attended = norm(spec.norm, g / "attention_post_norm", g.op.Add(x, attended, name="again"))
    return attended


def _augmented(
    spec: BlockSpec, g: Body, attended: ir.Value, inner: ir.Value, logits_indices: ir.Value | None
) -> ir.Value:
    """The sum behind attention (B,L,W), its input (B,S,W), logits_indices (B,L) -> y (B,L,W)."""
    if spec.augmented_residual is None:
        return attended
    place, picked = g / "augmented_residual", asked(g, inner, logits_indices)
    residual = augmented_residual(spec.augmented_residual, place, picked)  # (B, L, W)
    both = g.op.Add(attended, residual, name="augmented")
    y = g.op.Mul(both, g.op.Constant(value_float=2**-0.5))
    return y


def _crossed(
    spec: BlockSpec,
    weighted: bool,
    cache: Cache,
    g: Body,
    attended: ir.Value,
    cross: dict[str, ir.Value | None] | None,
) -> tuple[ir.Value, ...]:
    """After self-attention (B,S,W), the encoder's mask, keys and values -> (B,S,W), weights."""
    inner, post = attended, spec.placement == NormPlacement.POST
    if not post:
        inner = norm(spec.norm, g / "cross_attention_norm", attended)
    place, kind, values = g / "cross_attention", spec.cross_attention, cross or {}
    if cache == Cache.STATIC and kind is not None and kind.unmasked and not weighted:
        crossed, weights = shared_cross_attention(kind, place, inner, None, values["k"], values["v"]), []
    else:
        crossed, *weights = cross_attention(kind, weighted, place, inner, **values)
    if spec.placement == NormPlacement.SANDWICH:
        crossed = norm(spec.norm, g / "cross_attention_post_norm", crossed)
    attended = g.op.Add(attended, crossed, name="attended")  # (B, S, W)
    if post:
        attended = norm(spec.norm, g / "cross_attention_norm", attended)
    return attended, *weights


def _fed(spec: BlockSpec, g: Body, x: ir.Value, attended: ir.Value) -> ir.Value:
    """The block's input, and the hidden states after attention, both (B,S,W) -> y (B,S,W)."""
    if spec.feed_forward is None:
        return attended
    inner = x if spec.placement == NormPlacement.PARALLEL else attended
    if spec.placement.before:
        inner = norm(spec.norm, g / "feed_forward_norm", inner)
    if isinstance(spec.feed_forward, DenseAndExpertsSpec):
        fed = dense_and_experts(spec.feed_forward, g / "feed_forward", attended, inner)
    else:
        fed = FEED_FORWARDS[type(spec.feed_forward)](spec.feed_forward, g / "feed_forward", inner)
    if spec.placement == NormPlacement.SANDWICH:
        fed = norm(spec.norm, g / "feed_forward_post_norm", fed)
    elif spec.placement == NormPlacement.RES_POST:
        fed = norm(spec.norm, g / "feed_forward_norm", fed)
    if spec.layer_scale:
        fed = g.op.Mul(fed, g.weight("feed_forward_scale.weight"), name="fed")
    if spec.gated:
        fed = gate(g / "feed_forward_tanh_gate", fed)
    if spec.residual_scale != 1:
        fed = g.op.Mul(fed, g.op.Constant(value_float=spec.residual_scale), name="fed")
    y = g.op.Add(attended, fed)  # (B, S, W)
    if spec.placement.after:
        y = norm(spec.norm, g / "feed_forward_norm", y)
    return y if spec.adapter is None else adapter(spec.adapter, g / "adapter", y)


def _own_input(g: Body, context: dict[str, ir.Value | None]) -> ir.Value | None:
    """A layer's own input (B,S,P), taken out of the inputs of attention; of the requested tokens (B,L,P)."""
    return asked(g, context.pop("layer_input", None), context.get(names.LOGITS_INDICES))


def _ended(
    spec: BlockSpec, g: Body, y: ir.Value, own_input: ir.Value | None, streams: ir.Value | None
) -> ir.Value:
    """The output of the last sublayer (B,S,W), and the layer's own input (B,S,P) -> y (B,S,W).

    With the predicted streams (B,S,A,W), y are the corrected ones (B,S,A,W).
    """
    if streams is not None:
        return _corrected(spec, g, y, own_input, streams)
    if spec.layer_input is not None:
        y = g.op.Add(y, layer_input(spec.layer_input, g / "layer_input", y, own_input))
    return g.op.Mul(y, g.weight("output_scale.weight")) if spec.output_scale else y


def _corrected(
    spec: BlockSpec, g: Body, y: ir.Value, own_input: ir.Value | None, streams: ir.Value
) -> ir.Value:
    """As `_ended`, of several vectors of each token."""
    assert spec.streams is not None
    place, axis = g / "streams", g.op.Constant(value_ints=[2])
    scores = stream_router(spec.streams, place / "router", y)
    y = corrected_streams(spec.streams, place / "correct", streams, y, scores)  # (B, S, A, W)
    sizes = g.op.Constant(value_ints=[1, spec.streams.count - 1])
    first, others = g.op.Split(y, sizes, axis=2, name=["first", "others"])
    read = g.op.Squeeze(first, axis)
    if spec.streams.output_scale:
        read = g.op.Mul(read, g.weight("streams.scale.weight"), name="read")
    added = layer_input(spec.layer_input, g / "layer_input", read, own_input)  # (B, S, W)
    others = g.op.Add(others, g.op.Unsqueeze(added, axis), name="others")
    return g.op.Concat(first, others, axis=2)
