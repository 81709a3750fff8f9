"""What contracts with a cache share: keys and values by layer, and the encoder before a decoder."""

from collections.abc import Sequence

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import Port, Signature, floats, ints
from txexport.contracts.one_pass import Shape, encoder_inputs, hidden_shape
from txexport.spec import AttentionSpec, EmbeddingSpec, ModelSpec

SOURCE: Shape = (names.BATCH_SIZE, names.ENCODER_SEQUENCE_LENGTH)


def graphs(
    spec: ModelSpec, step: Sequence[Port], lengths: tuple[str, str], logits: str
) -> dict[str, Signature]:
    """A decoder that takes `step` and its past, after an encoder that gives it cross keys and values.

    `lengths` are those of keys and values that go in and that come out, `logits` that of scores.
    """
    decoder = Signature(
        (*step, *source_mask(spec), *_past(spec, lengths[0])),
        (logits_port(spec, logits), *present(spec, lengths[1])),
    )
    if spec.encoder is None:
        return {roles.MODEL: decoder}
    inputs, hidden = encoder_ports(spec)
    return {
        roles.ENCODER: Signature(inputs, (hidden, *cross(spec, cache_names.PRESENT))),
        roles.DECODER: decoder,
    }


def encoder_ports(spec: ModelSpec) -> tuple[tuple[Port, ...], Port]:
    """What an encoder before a decoder takes, and its hidden states."""
    assert spec.encoder is not None
    shape = hidden_shape(spec.encoder, SOURCE)
    hidden = floats(names.LAST_HIDDEN_STATE, *shape, spec.encoder.hidden_size)
    return encoder_inputs(spec.encoder, SOURCE), hidden


def source_mask(spec: ModelSpec) -> tuple[Port, ...]:
    """The mask of an encoder's tokens; a sound has no padding."""
    tokens = spec.encoder is not None and isinstance(spec.encoder.embedding, EmbeddingSpec)
    return (ints(names.ENCODER_ATTENTION_MASK, *SOURCE),) if tokens else ()


def logits_port(spec: ModelSpec, length: str) -> Port:
    """Scores of the vocabulary for so many tokens a row."""
    assert spec.decoder is not None
    return floats(names.LOGITS, names.BATCH_SIZE, length, spec.decoder.words.vocab_size)


def present(spec: ModelSpec, length: str) -> list[Port]:
    """A decoder's own keys and values, as they come out."""
    assert spec.decoder is not None
    ports = []
    for layer, block in enumerate(spec.decoder.layers):
        ports += _pair(cache_names.present(layer, _part(spec)), block.dense, length)
    return ports


def cross(spec: ModelSpec, kind: str) -> list[Port]:
    """The keys and values of an encoder's tokens, of `kind` cache_names.PAST or PRESENT."""
    assert spec.decoder is not None
    ports = []
    for layer, block in enumerate(spec.decoder.layers):
        if block.cross_attention is not None:
            pair = cache_names.pair(kind, layer, cache_names.ENCODER)
            ports += _pair(pair, block.cross_attention, _source_length(spec))
    return ports


def _past(spec: ModelSpec, length: str) -> list[Port]:
    """Keys and values that go in: layer by layer a decoder's own, then those of an encoder's tokens."""
    assert spec.decoder is not None
    ports, source = [], iter(cross(spec, cache_names.PAST))
    for layer, block in enumerate(spec.decoder.layers):
        ports += _pair(cache_names.past(layer, _part(spec)), block.dense, length)
        if block.cross_attention is not None:
            ports += [next(source), next(source)]
    return ports


def _part(spec: ModelSpec) -> str | None:
    """The part that a decoder's own keys and values are of."""
    return None if spec.encoder is None else cache_names.DECODER


def _source_length(spec: ModelSpec) -> int | str:
    """How many vectors an encoder gives its decoder: of a sound always as many."""
    assert spec.encoder is not None
    return hidden_shape(spec.encoder, SOURCE)[1]


def _pair(pair: tuple[str, str], spec: AttentionSpec, length: int | str) -> list[Port]:
    """Keys and values (B,K,length,H)."""
    return [floats(name, names.BATCH_SIZE, spec.num_kv_heads, length, spec.head_dim) for name in pair]
