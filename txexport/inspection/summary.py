"""A stack in one line, for people."""

from collections import Counter
from collections.abc import Iterable

from txexport.spec import (
    AlibiSpec,
    AttentionSpec,
    EmbeddingSpec,
    ExpertsSpec,
    FeedForwardSpec,
    PatchSpec,
    RelativeSpec,
    SoundSpec,
    SparseAttentionSpec,
    StackSpec,
)


def outline(spec: StackSpec) -> str:
    """Sizes, positions, norms and windows; " / " stands between what differs from layer to layer."""
    blocks = spec.blocks
    parts = [
        f"{spec.num_layers} {'causal layers' if spec.causal else 'layers'} of width {spec.hidden_size:,}",
        _each(_heads(block.attention) for block in blocks),
        *(["attention to the encoder"] if spec.crossed else []),
        _each(_feed_forward(block.feed_forward) for block in blocks),
        *_input(spec),
        _each(f"{block.placement}-norm ({block.norm.kind})" for block in blocks),
        *_windows(spec),
    ]
    return ", ".join(parts)


def _each(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))


def _heads(spec: AttentionSpec | SparseAttentionSpec) -> str:
    heads = f"{spec.num_heads} heads of {spec.head_dim}"
    if not isinstance(spec, AttentionSpec):
        return f"{heads} ({type(spec).__name__.removesuffix('AttentionSpec')})"
    return heads if spec.num_kv_heads == spec.num_heads else f"{heads} on {spec.num_kv_heads} key/value heads"


def _feed_forward(spec: FeedForwardSpec | ExpertsSpec) -> str:
    if isinstance(spec, ExpertsSpec):
        return f"{spec.chosen} of {spec.count} experts, each {_feed_forward(spec.expert)}"
    gated = "gated " * spec.gated
    return f"feed-forward {spec.intermediate_size:,} ({gated}{spec.activation})"


def _input(spec: StackSpec) -> list[str]:
    embedding = spec.embedding
    if isinstance(embedding, PatchSpec):
        height, width = embedding.image_size
        size = f"{height} x {width} pixels in squares of {embedding.patch_size}"
        fitted = ", interpolated for other sizes" * embedding.any_size
        return [size, f"{embedding.length:,} learned positions{fitted}"]
    if isinstance(embedding, SoundSpec):
        size = f"{2 * embedding.length:,} frames of {embedding.bands} bands"
        return [size, f"{embedding.length:,} fixed positions"]
    return [
        f"vocabulary {embedding.vocab_size:,}",
        *([f"word vectors of {embedding.factored_size:,}"] if embedding.factored_size else []),
        *([f"{embedding.segments} segments"] if embedding.segments > 1 else []),
        _positions(spec, embedding),
    ]


def _positions(spec: StackSpec, embedding: EmbeddingSpec) -> str:
    position = embedding.position
    if position.table:
        kind = f"{position.kind} positions"
    elif isinstance(spec.relative, RelativeSpec):
        kind = f"relative positions in {spec.relative.buckets} buckets"
    elif isinstance(spec.relative, AlibiSpec):
        kind = "linear biases of distance"
    elif any(isinstance(b.attention, AttentionSpec) and b.attention.rotary is not None for b in spec.blocks):
        kind = "rotary positions"
    else:
        kind = "no positions"
    return f"{kind} of any length" if position.limit is None else f"{kind} up to {position.limit:,}"


def _windows(spec: StackSpec) -> list[str]:
    found = Counter(block.attention.window for block in spec.layers)
    return [
        f"window of {window:,} in {count} of {spec.num_layers} layers"
        for window, count in found.items()
        if window is not None
    ]
