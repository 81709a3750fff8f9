"""What contracts with a cache share: keys and values by layer, and the encoder before a decoder."""

from collections.abc import Sequence

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import Port, Signature, floats, ints
from txexport.contracts.one_pass import Shape, encoder_inputs, hidden_shape
from txexport.errors import SpecError
from txexport.spec import DecoderSpec, EncoderDecoderSpec, MaskedAttentionSpec, ModelSpec, TextStackSpec

SOURCE: Shape = (names.BATCH_SIZE, names.ENCODER_SEQUENCE_LENGTH)


def graphs(
    spec: ModelSpec, step: Sequence[Port], lengths: tuple[str, str], logits: str
) -> dict[str, Signature]:
    """A decoder that takes `step` and its past, after an encoder that gives it cross keys and values.

    `lengths` are those of keys and values that go in and that come out, `logits` that of scores.
    """
    if not isinstance(spec, DecoderSpec | EncoderDecoderSpec):
        raise SpecError(f"{type(spec).__name__}: nothing is generated, so no graph has a cache")
    decoder = Signature(
        (*step, *source_mask(spec), *_past(spec, lengths[0])),
        (logits_port(spec, logits), *present(spec, lengths[1])),
    )
    if isinstance(spec, DecoderSpec):
        return {roles.MODEL: decoder}
    inputs, hidden = encoder_ports(spec)
    return {
        roles.ENCODER: Signature(inputs, (hidden, *cross(spec, cache_names.PRESENT))),
        roles.DECODER: decoder,
    }


def encoder_ports(spec: EncoderDecoderSpec) -> tuple[tuple[Port, ...], Port]:
    """What an encoder before a decoder takes, and its hidden states."""
    shape = hidden_shape(spec.encoder, SOURCE)
    hidden = floats(names.LAST_HIDDEN_STATE, *shape, spec.encoder.hidden_size)
    return encoder_inputs(spec.encoder, SOURCE), hidden


def source_mask(spec: DecoderSpec | EncoderDecoderSpec) -> tuple[Port, ...]:
    """The mask of an encoder's tokens; a sound has no padding."""
    tokens = isinstance(spec, EncoderDecoderSpec) and isinstance(spec.encoder, TextStackSpec)
    return (ints(names.ENCODER_ATTENTION_MASK, *SOURCE),) if tokens else ()


def logits_port(spec: DecoderSpec | EncoderDecoderSpec, length: str) -> Port:
    """Scores of the vocabulary for so many tokens a row."""
    return floats(names.LOGITS, names.BATCH_SIZE, length, spec.vocab_size)


def present(spec: DecoderSpec | EncoderDecoderSpec, length: str) -> list[Port]:
    """A decoder's own keys and values, as they come out."""
    ports = []
    for layer, block in enumerate(spec.decoder.layers):
        ports += _pair(cache_names.present(layer, _part(spec)), block.masked, length)
    return ports


def cross(spec: EncoderDecoderSpec, kind: str) -> list[Port]:
    """The keys and values of an encoder's tokens, of `kind` cache_names.PAST or PRESENT."""
    ports = []
    for layer, block in enumerate(spec.decoder.layers):
        if block.cross_attention is not None:
            pair = cache_names.pair(kind, layer, cache_names.ENCODER)
            ports += _pair(pair, block.cross_attention, _source_length(spec))
    return ports


def _past(spec: DecoderSpec | EncoderDecoderSpec, length: str) -> list[Port]:
    """Keys and values that go in: layer by layer a decoder's own, then those of an encoder's tokens."""
    ports: list[Port] = []
    source = iter(cross(spec, cache_names.PAST) if isinstance(spec, EncoderDecoderSpec) else ())
    for layer, block in enumerate(spec.decoder.layers):
        ports += _pair(cache_names.past(layer, _part(spec)), block.masked, length)
        if block.cross_attention is not None:
            ports += [next(source), next(source)]
    return ports


def _part(spec: DecoderSpec | EncoderDecoderSpec) -> str | None:
    """The part that a decoder's own keys and values are of."""
    return None if isinstance(spec, DecoderSpec) else cache_names.DECODER


def _source_length(spec: EncoderDecoderSpec) -> int | str:
    """How many vectors an encoder gives its decoder: of a sound always as many."""
    return hidden_shape(spec.encoder, SOURCE)[1]


def _pair(pair: tuple[str, str], spec: MaskedAttentionSpec, length: int | str) -> list[Port]:
    """Keys and values (B,K,length,H)."""
    return [
        floats(name, names.BATCH_SIZE, heads, length, size)
        for name, (heads, size) in zip(pair, spec.cache_shapes, strict=True)
    ]
