"""Names and shapes of a spec's parameters, in the order in which the components declare them.

This is what a checkpoint must fill, known without PyTorch. A matrix is (out, in), as PyTorch keeps it.
A tied or shared matrix appears once, under the name of its first owner.
"""

from typing import assert_never

from txexport.spec import (
    AttentionPoolSpec,
    BlockSpec,
    DecoderSpec,
    DualEncoderSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    LogMelSpec,
    ModelSpec,
    NormPlacement,
    PatchSpec,
    RelativeSpec,
    RelativeVectorsSpec,
    SpectrogramSpec,
    StackSpec,
    TextStackSpec,
    VectorSpec,
)
from txexport.spec.attention_parameters import (
    attention,
    cross_attention,
    cross_key_value,
)
from txexport.spec.shapes import Shapes, linear, norm, under


def feed_forward(spec: FeedForwardSpec | ExpertsSpec) -> Shapes:
    """One network, or a mixture of them."""
    match spec:
        case FeedForwardSpec():
            return dense_feed_forward(spec)
        case ExpertsSpec():
            return experts(spec)
        case _:
            assert_never(spec)


def dense_feed_forward(spec: FeedForwardSpec) -> Shapes:
    """The projections up and down, and the gate's."""
    up = linear(spec.hidden_size, spec.intermediate_size, spec.bias)
    down = linear(spec.intermediate_size, spec.hidden_size, spec.bias)
    return under("up", up) | (under("gate", up) if spec.gated else {}) | under("down", down)


def experts(spec: ExpertsSpec) -> Shapes:
    """The router, every expert, and the shared one with its router."""
    shapes = under("router", linear(spec.hidden_size, spec.num_experts, spec.router_bias))
    if spec.corrected:
        shapes["router.correction"] = (spec.num_experts,)
    if spec.output_bias:
        shapes["bias"] = (spec.hidden_size,)
    for number in range(spec.num_experts):
        shapes |= under(f"experts.{number}", dense_feed_forward(spec.expert))
    if spec.shared is not None:
        if spec.shared_gated:
            shapes |= under("shared_router", linear(spec.hidden_size, 1, False))
        shapes |= under("shared", dense_feed_forward(spec.shared))
    return shapes


def block(spec: BlockSpec) -> Shapes:
    """One layer: each sublayer with its norms and its scale."""
    sandwich = spec.placement == NormPlacement.SANDWICH
    scale: Shapes = {"weight": (spec.attention.hidden_size,)} if spec.layer_scale else {}
    shapes = under("attention", attention(spec.attention))
    if not spec.skip_attention_norm:
        shapes |= under("attention_norm", norm(spec.norm))
    if sandwich or spec.placement == NormPlacement.DOUBLE_POST:
        shapes |= under("attention_post_norm", norm(spec.norm))
    shapes |= under("attention_scale", scale)
    if spec.cross_attention is not None:
        shapes |= under("cross_attention", cross_attention(spec.cross_attention))
        shapes |= under("cross_attention_norm", norm(spec.norm))
    shapes |= under("feed_forward", feed_forward(spec.feed_forward))
    shapes |= under("feed_forward_norm", norm(spec.norm))
    if sandwich:
        shapes |= under("feed_forward_post_norm", norm(spec.norm))
    shapes |= under("feed_forward_scale", scale)
    return shapes


def embedding(spec: EmbeddingSpec | PatchSpec | LogMelSpec | SpectrogramSpec) -> Shapes:
    """What comes before a stack's first layer."""
    match spec:
        case EmbeddingSpec():
            return token_embedding(spec)
        case PatchSpec():
            return patches(spec)
        case LogMelSpec():
            return sound(spec)
        case SpectrogramSpec():
            return spectrogram(spec)
        case _:
            assert_never(spec)


def patches(spec: PatchSpec) -> Shapes:
    """The learned tokens, the table of positions, the projection of patches, and the norm."""
    width, size = spec.hidden_size, spec.patch_size
    shapes: Shapes = {f"tokens.{token}.weight": (1, width) for token in range(spec.tokens)}
    if spec.registers:
        shapes["registers.weight"] = (spec.registers, width)
    if spec.positioned:
        shapes["position.weight"] = (spec.positions, width)
    shapes["project.weight"] = (width, spec.channels, size, size)
    if spec.bias:
        shapes["project.bias"] = (width,)
    return shapes | (under("norm", norm(spec.norm)) if spec.norm is not None else {})


def sound(spec: LogMelSpec) -> Shapes:
    """Two convolutions over time, and the table of positions."""
    width = spec.hidden_size
    return {
        "first.weight": (width, spec.num_mel_bins, 3),
        "first.bias": (width,),
        "second.weight": (width, width, 3),
        "second.bias": (width,),
        "position.weight": (spec.length, width),
    }


def spectrogram(spec: SpectrogramSpec) -> Shapes:
    """Both learned tokens, the table of positions and the projection of patches."""
    width, size = spec.hidden_size, spec.patch_size
    return {
        "tokens.0.weight": (1, width),
        "tokens.1.weight": (1, width),
        "position.weight": (spec.length, width),
        "project.weight": (width, 1, size, size),
        "project.bias": (width,),
    }


def token_embedding(spec: EmbeddingSpec) -> Shapes:
    """Tables of words, positions and segments, the norm, and the projection of narrower tables."""
    size = spec.table_size
    shapes: Shapes = {"word.weight": (spec.vocab_size, spec.word_size)}
    if spec.position.table:
        shapes["position.weight"] = (spec.position.size, size)
    if spec.type_vocab_size:
        shapes["segment.weight"] = (spec.type_vocab_size, size)
    if spec.task_type_vocab_size:
        shapes["task.weight"] = (spec.task_type_vocab_size, size)
    if spec.norm is not None:
        shapes |= under("norm", norm(spec.norm))
    if spec.factored_size is not None:
        projection = linear(spec.word_size, spec.hidden_size, not spec.project_first)
        shapes |= under("project", projection)
    return shapes


def stack(spec: StackSpec) -> Shapes:
    """Embedding, relative bias, layers, final norm."""
    shapes = under("embedding", embedding(spec.embedding))
    match spec:
        case TextStackSpec(relative=RelativeSpec(buckets=buckets, every_layer=several)):
            for table in (
                [f"relative.{layer}" for layer in range(spec.num_layers)] if several else ["relative"]
            ):
                shapes[f"{table}.weight"] = (buckets, spec.blocks[0].attention.num_heads)
        case TextStackSpec(relative=RelativeVectorsSpec() as relative):
            shapes |= under("relative", relative_vectors(relative, spec.hidden_size))
    for layer, kind in enumerate(spec.layers):
        shapes |= under(f"layers.{layer}", block(kind))
    if spec.final_norm is not None:
        shapes |= under("final_norm", norm(spec.final_norm))
    return shapes


def relative_vectors(spec: RelativeVectorsSpec, hidden_size: int) -> Shapes:
    """Vectors of relative positions, and their norm."""
    shapes: Shapes = {"weight": (2 * spec.span, hidden_size)}
    return shapes | (under("norm", norm(spec.norm)) if spec.norm is not None else {})


def pooler(hidden_size: int) -> Shapes:
    """The dense layer over the first token."""
    return under("dense", linear(hidden_size, hidden_size, True))


def vector(spec: VectorSpec, hidden_size: int) -> Shapes:
    """The pool that makes a sequence's vector, or the vector's norm and its projection."""
    if spec.pool is not None:
        return under("pool", attention_pool(spec.pool))
    shapes = under("norm", norm(spec.norm)) if spec.norm is not None else {}
    return shapes | (under("project", linear(hidden_size, spec.size, spec.bias)) if spec.size else {})


def attention_pool(spec: AttentionPoolSpec) -> Shapes:
    """The vector that attends, its attention, norm and network."""
    return {
        "probe.weight": (1, spec.norm.size),
        **under("key_value", cross_key_value(spec.attention)),
        **under("attention", cross_attention(spec.attention)),
        **under("norm", norm(spec.norm)),
        **under("feed_forward", dense_feed_forward(spec.feed_forward)),
    }


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
    """Transform and projection to the vocabulary or the labels; a tied projection adds nothing."""
    shapes: Shapes = {}
    if spec.kind == HeadKind.NONE:
        return shapes
    outputs, inner = spec.labels or vocab_size, spec.projection_size(hidden_size)
    if not spec.tied:
        shapes["weight"] = (outputs, inner)
    if spec.bias:
        shapes["bias"] = (outputs,)
    if spec.activation is not None:
        shapes |= under("dense", linear(hidden_size, inner, spec.dense_bias))
    if spec.norm is not None:
        shapes |= under("norm", norm(spec.norm))
    if spec.factored_size is not None:
        shapes |= under("narrow", linear(hidden_size, spec.factored_size, spec.factored_bias))
    return shapes


def model(spec: ModelSpec) -> Shapes:
    """Every parameter of a model, each tied one once."""
    match spec:
        case EncoderSpec():
            return _encoder_model(spec)
        case DecoderSpec():
            return under("decoder", stack(spec.decoder)) | _head(spec)
        case EncoderDecoderSpec():
            return _encoder_decoder_model(spec)
        case DualEncoderSpec():
            return _dual_encoder_model(spec)
        case _:
            assert_never(spec)


def _encoder_model(spec: EncoderSpec) -> Shapes:
    """The stack, the pooler, and the heads."""
    shapes, width = under("encoder", stack(spec.encoder)), spec.encoder.hidden_size
    if spec.layer_sum:
        shapes["layer_sum.weight"] = (spec.encoder.num_layers + 1,)
    if spec.pooler:
        shapes |= under("pooler", pooler(width))
    if spec.vector is not None:
        shapes |= under("vector", vector(spec.vector, width))
    shapes |= _head(spec)
    if spec.next_sentence is not None:
        shapes |= under("next_sentence", head(spec.next_sentence, width, spec.vocab_size))
    if spec.distilled:
        shapes |= under("distilled", head(spec.head, width, spec.vocab_size))
    return shapes


def _encoder_decoder_model(spec: EncoderDecoderSpec) -> Shapes:
    """Both stacks, the keys and values that the decoder has of the encoder, and the head."""
    shapes = under("encoder", stack(spec.encoder))
    if spec.projected:
        projection = linear(spec.encoder.hidden_size, spec.decoder.hidden_size, True)
        shapes |= under("cross_projection", projection)
    for layer, kind in enumerate(spec.decoder.layers):
        if kind.cross_attention is not None:
            shapes |= under(f"cross.{layer}", cross_key_value(kind.cross_attention))
    shapes |= under("decoder", stack(spec.decoder))
    if spec.shared_embedding:
        del shapes["decoder.embedding.word.weight"]
    return shapes | _head(spec)


def _head(spec: EncoderSpec | DecoderSpec | EncoderDecoderSpec) -> Shapes:
    return under("head", head(spec.head, spec.stack.hidden_size, spec.vocab_size))


def _dual_encoder_model(spec: DualEncoderSpec) -> Shapes:
    """Both encoders with their projections or pool, and the scale and bias of their products."""
    shapes = under("text", stack(spec.text))
    shapes |= under("text_projection", linear(spec.text.hidden_size, spec.size, spec.text_bias))
    shapes |= under("vision", stack(spec.vision))
    if spec.vision_pool is None:
        shapes |= under("vision_projection", linear(spec.vision.hidden_size, spec.size, False))
    else:
        shapes |= under("vision_pool", attention_pool(spec.vision_pool))
    shapes["similarity.scale"] = (1,)
    return shapes | ({"similarity.bias": (1,)} if spec.scored_alone else {})
