"""A stack in one line, for people."""

from collections import Counter
from collections.abc import Iterable
from typing import assert_never

from txexport.errors import SpecError
from txexport.spec import (
    AlibiSpec,
    AttentionSpec,
    DisentangledAttentionSpec,
    ExpertsSpec,
    FeedForwardSpec,
    LatentAttentionSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LogMelSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    MaskedAttentionSpec,
    PatchSpec,
    PerformerAttentionSpec,
    PositionedAttentionSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    RoundedAlibiSpec,
    SignalStackSpec,
    SinusoidVectorsSpec,
    SparseAttentionSpec,
    SpectrogramSpec,
    StackSpec,
    StridedAttentionSpec,
    TextStackSpec,
    TransformerXLAttentionSpec,
)


def outline(spec: StackSpec) -> str:
    """Sizes, positions, norms and windows; " / " stands between what differs from layer to layer."""
    blocks = spec.blocks
    parts = [
        f"{spec.num_layers} {'causal layers' if spec.causal else 'layers'} of width {spec.hidden_size:,}",
        _each(heads(block.attention) for block in blocks),
        *(["attention to the encoder"] if spec.has_cross_attention else []),
        _each(feed_forward(block.feed_forward) for block in blocks),
        *inputs(spec),
        _each(f"{block.placement}-norm ({block.norm.kind})" for block in blocks),
        *_windows(spec),
    ]
    return ", ".join(parts)


def _each(texts: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(texts))


def heads(spec: MaskedAttentionSpec | PositionedAttentionSpec | SparseAttentionSpec) -> str:
    """Heads of attention, and its kind."""
    heads = f"{spec.num_heads} heads of {spec.head_dim}"
    match spec:
        case AttentionSpec(num_kv_heads=keys):
            return heads if keys == spec.num_heads else f"{heads} on {keys} key/value heads"
        case LatentAttentionSpec():
            return f"{heads} on latents of {spec.kv_lora_rank:,}"
        case DisentangledAttentionSpec():
            return f"{heads} (Disentangled)"
        case TransformerXLAttentionSpec():
            return f"{heads} (Transformer-XL)"
        case LocalAttentionSpec():
            return f"{heads} (Local)"
        case StridedAttentionSpec():
            return f"{heads} (Strided)"
        case LongformerAttentionSpec():
            return f"{heads} (Longformer)"
        case LinformerAttentionSpec():
            return f"{heads} (Linformer)"
        case LowRankAttentionSpec():
            return f"{heads} (LowRank)"
        case PerformerAttentionSpec():
            return f"{heads} (Performer)"
        case _:
            assert_never(spec)


def feed_forward(spec: FeedForwardSpec | ExpertsSpec) -> str:
    """Width and activation, of experts how many."""
    match spec:
        case FeedForwardSpec():
            gated = "gated " * spec.gated
            return f"feed-forward {spec.intermediate_size:,} ({gated}{spec.activation})"
        case ExpertsSpec():
            shared = "" if spec.shared is None else f", beside one of {feed_forward(spec.shared)}"
            return f"{spec.top_k} of {spec.num_experts} experts, each {feed_forward(spec.expert)}{shared}"
        case _:
            assert_never(spec)


def inputs(spec: StackSpec) -> list[str]:
    """Vocabulary and positions, or the size of an image or a sound."""
    match spec:
        case TextStackSpec(embedding=words):
            return [
                f"vocabulary {words.vocab_size:,}",
                *([f"word vectors of {words.factored_size:,}"] if words.factored_size else []),
                *([f"{words.type_vocab_size} segments"] if words.type_vocab_size > 1 else []),
                _positions(spec),
            ]
        case SignalStackSpec(embedding=PatchSpec() as patches):
            height, width = patches.image_size
            size = f"{height} x {width} pixels in squares of {patches.patch_size}"
            fitted = ", interpolated for other sizes" * patches.any_size
            registers = [f"{patches.registers} registers"] if patches.registers else []
            if not patches.positioned:
                return [size, *registers, "positions by rotation, of any size"]
            return [size, *registers, f"{patches.positions:,} learned positions{fitted}"]
        case SignalStackSpec(embedding=LogMelSpec() as sound):
            size = f"{2 * sound.length:,} frames of {sound.num_mel_bins} bands"
            return [size, f"{sound.length:,} fixed positions"]
        case SignalStackSpec(embedding=SpectrogramSpec() as spectrogram):
            size = f"{spectrogram.max_length:,} frames of {spectrogram.num_mel_bins} bands"
            strides = f"every {spectrogram.time_stride} frames and {spectrogram.frequency_stride} bands"
            squares = f"squares of {spectrogram.patch_size}, {strides}"
            return [size, squares, f"{spectrogram.length:,} learned positions"]
        case _:
            raise SpecError(f"{type(spec.embedding).__name__} is not known here")


def _positions(spec: TextStackSpec) -> str:
    position = spec.embedding.position
    kind = f"{position.kind} positions" if position.table else _relative_positions(spec)
    return f"{kind} of any length" if position.limit is None else f"{kind} up to {position.limit:,}"


def _relative_positions(spec: TextStackSpec) -> str:
    match spec.relative:
        case RelativeSpec(buckets=buckets):
            return f"relative positions in {buckets} buckets"
        case RelativeVectorsSpec(span=span):
            return f"{2 * span} vectors of relative positions"
        case SinusoidVectorsSpec():
            return "sinusoids of relative positions"
        case AlibiSpec() | RoundedAlibiSpec():
            return "linear biases of distance"
        case None:
            kinds = [block.attention for block in spec.blocks]
            rotary = any(isinstance(kind, MaskedAttentionSpec) and kind.rotary is not None for kind in kinds)
            return "rotary positions" if rotary else "no positions"
        case kind:
            assert_never(kind)


def _windows(spec: StackSpec) -> list[str]:
    layers = Counter(block.attention.window for block in spec.layers)
    return [
        f"window of {window:,} in {count} of {spec.num_layers} layers"
        for window, count in layers.items()
        if window is not None
    ]
