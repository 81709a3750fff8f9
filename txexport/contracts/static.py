"""Ours by default: keys and values are buffers of fixed capacity, which a step writes in place.

The caller owns each buffer and binds it as past and present at once. No mask is given: positions, the place
to write and what a token sees all follow from how many slots a row has filled.
"""

from txexport.contracts import cached, names
from txexport.contracts.contract import Contract, Signature, ints
from txexport.spec import Cache, ModelSpec

STEP = (
    ints(names.INPUT_IDS, names.BATCH_SIZE, names.SEQUENCE_LENGTH),
    ints(names.CACHE_LENGTHS, names.BATCH_SIZE),
    ints(names.LOGITS_INDICES, names.BATCH_SIZE, names.LOGITS_LENGTH),
)


def graphs(spec: ModelSpec) -> dict[str, Signature]:
    """A decoder, and the encoder before it."""
    return cached.graphs(spec, STEP, (names.CAPACITY, names.CAPACITY), names.LOGITS_LENGTH)


STATIC = Contract("static", Cache.STATIC, graphs)
