"""Graphs that read their whole input at once and keep nothing: encoders under any head, and two towers."""

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.errors import SpecError
from txexport.spec import (
    DecoderSpec,
    DualEncoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    HeadKind,
    LogMelSpec,
    ModelSpec,
    PatchSpec,
    SignalStackSpec,
    SpectrogramSpec,
    StackSpec,
    TextStackSpec,
    VectorSpec,
)

Shape = tuple[int | str, ...]
TOKENS: Shape = (names.BATCH_SIZE, names.SEQUENCE_LENGTH)
CHOICES: Shape = (names.BATCH_SIZE, names.NUM_CHOICES, names.SEQUENCE_LENGTH)


def graphs(spec: ModelSpec) -> dict[str, Signature]:
    """The graphs of a model that generates nothing."""
    if isinstance(spec, DualEncoderSpec):
        return _dual_encoder(spec)
    if isinstance(spec, DecoderSpec):
        raise SpecError("DecoderSpec: a decoder alone generates, so its graph has a cache")
    inputs = encoder_inputs(spec.encoder, CHOICES if spec.head.kind == HeadKind.CHOICES else TOKENS)
    return {roles.MODEL: Signature(inputs, _head_outputs(spec, hidden_shape(spec.encoder, TOKENS)))}


def encoder_inputs(stack: StackSpec, shape: Shape) -> tuple[Port, ...]:
    """What an encoder reads: tokens in `shape`, or a signal."""
    if isinstance(stack, SignalStackSpec):
        return (signal_input(stack.embedding),)
    return tuple(ints(name, *shape) for name in token_inputs(stack))


def token_inputs(stack: TextStackSpec) -> list[str]:
    """The names of what an encoder of texts reads."""
    inputs = [names.INPUT_IDS, names.ATTENTION_MASK]
    inputs += [names.TOKEN_TYPE_IDS] * (stack.token_types > 1)
    return inputs + [names.GLOBAL_ATTENTION_MASK] * stack.global_tokens


def signal_input(spec: PatchSpec | LogMelSpec | SpectrogramSpec) -> Port:
    """An image's pixels or a sound's spectrogram."""
    if isinstance(spec, LogMelSpec):
        return floats(names.INPUT_FEATURES, names.BATCH_SIZE, *spec.shape)
    if isinstance(spec, SpectrogramSpec):
        return floats(names.INPUT_VALUES, names.BATCH_SIZE, *spec.shape)
    size = (names.HEIGHT, names.WIDTH) if spec.any_size else spec.image_size
    return floats(names.PIXEL_VALUES, names.BATCH_SIZE, spec.channels, *size)


def hidden_shape(stack: StackSpec, tokens: Shape) -> Shape:
    """Rows and length of an encoder's hidden states: as many as `tokens`, or the vectors of a signal."""
    if isinstance(stack, TextStackSpec):
        return tokens
    embedding = stack.embedding
    any_size = isinstance(embedding, PatchSpec) and embedding.any_size
    return names.BATCH_SIZE, names.SEQUENCE_LENGTH if any_size else embedding.length


def _head_outputs(spec: EncoderSpec | EncoderDecoderSpec, shape: Shape) -> tuple[Port, ...]:
    """What an encoder's head makes of hidden states in `shape`, or those themselves."""
    head, batch = spec.head, shape[0]
    if head.kind == HeadKind.MASKED_LM:
        words = (*shape, spec.vocab_size)
        second = spec.next_sentence if isinstance(spec, EncoderSpec) else None
        if second is None:
            return (floats(names.LOGITS, *words),)
        pairs = floats(names.SEQ_RELATIONSHIP_LOGITS, batch, second.labels)
        return floats(names.PREDICTION_LOGITS, *words), pairs
    if head.kind == HeadKind.SEQUENCE:
        outputs = (names.CLS_LOGITS, names.DISTILLATION_LOGITS, names.LOGITS)
        distilled = isinstance(spec, EncoderSpec) and spec.distilled
        return tuple(floats(name, batch, head.labels) for name in outputs[0 if distilled else 2 :])
    if head.kind == HeadKind.CHOICES:
        return (floats(names.LOGITS, batch, names.NUM_CHOICES),)
    if head.kind == HeadKind.TOKENS:
        return (floats(names.LOGITS, *shape, head.labels),)
    if head.kind == HeadKind.SPANS:
        return floats(names.START_LOGITS, *shape), floats(names.END_LOGITS, *shape)
    width = spec.encoder.hidden_size
    hidden = floats(names.LAST_HIDDEN_STATE, *shape, width)
    match spec:
        case EncoderSpec(pooler=True):
            return hidden, floats(names.POOLER_OUTPUT, batch, width)
        case EncoderSpec(vector=VectorSpec() as vector):
            return hidden, floats(vector_name(spec), batch, vector.size or width)
        case _:
            return (hidden,)


def vector_name(spec: EncoderSpec) -> str:
    """What the vector that an encoder gives of a sequence is called."""
    if spec.vector is None or not spec.vector.compared:
        return names.POOLER_OUTPUT
    return names.TEXT_EMBEDS if isinstance(spec.encoder, TextStackSpec) else names.IMAGE_EMBEDS


def _dual_encoder(spec: DualEncoderSpec) -> dict[str, Signature]:
    """Graphs for texts, for images, and for comparing their vectors."""
    texts, images = names.TEXT_BATCH_SIZE, names.IMAGE_BATCH_SIZE
    vectors = floats(names.TEXT_EMBEDS, texts, spec.size), floats(names.IMAGE_EMBEDS, images, spec.size)
    scores = floats(names.LOGITS_PER_TEXT, texts, images), floats(names.LOGITS_PER_IMAGE, images, texts)
    return {
        roles.TEXT: Signature(
            encoder_inputs(spec.text, TOKENS), (floats(names.TEXT_EMBEDS, names.BATCH_SIZE, spec.size),)
        ),
        roles.VISION: Signature(
            (signal_input(spec.vision.embedding),),
            (floats(names.IMAGE_EMBEDS, names.BATCH_SIZE, spec.size),),
        ),
        roles.SIMILARITY: Signature(vectors, scores),
    }


ONE_PASS = Contract("one pass", None, graphs)
