"""Ours with a cache that grows: each step gives keys and values longer than those that it took.

Of a decoder alone this is the ecosystem's contract. Behind an encoder, cross keys and values are computed
once, by the encoder's graph, and no mask is given: every row is as long as the cache.
"""

from txexport.contracts import cached, names
from txexport.contracts.contract import Contract, Signature, ints
from txexport.spec import Cache, EncoderDecoderSpec, ModelSpec

LENGTHS = (names.PAST_SEQUENCE_LENGTH, names.TOTAL_SEQUENCE_LENGTH)
STEP = (
    ints(names.INPUT_IDS, names.BATCH_SIZE, names.SEQUENCE_LENGTH),
    ints(names.ATTENTION_MASK, names.BATCH_SIZE, names.TOTAL_SEQUENCE_LENGTH),
    ints(names.POSITION_IDS, names.BATCH_SIZE, names.SEQUENCE_LENGTH),
)


def graphs(spec: ModelSpec) -> dict[str, Signature]:
    """A decoder, and the encoder before it."""
    step = STEP[:1] if isinstance(spec, EncoderDecoderSpec) else STEP
    return cached.graphs(spec, step, LENGTHS, names.SEQUENCE_LENGTH)


DYNAMIC = Contract("dynamic", Cache.DYNAMIC, graphs)
