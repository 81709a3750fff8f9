"""Our contract with a growing cache: each step returns keys and values longer than those that it took.

For a decoder alone this is the ecosystem's contract. After an encoder, the encoder's graph computes the keys
and values of cross-attention once, and there is no mask: every row is as long as the cache.
"""

from txexport.contracts import names
from txexport.contracts.contract import Contract, ints
from txexport.spec import Cache

STEP = (
    ints(names.INPUT_IDS, names.BATCH_SIZE, names.SEQUENCE_LENGTH),
    ints(names.ATTENTION_MASK, names.BATCH_SIZE, names.TOTAL_SEQUENCE_LENGTH),
    ints(names.POSITION_IDS, names.BATCH_SIZE, names.SEQUENCE_LENGTH),
)
DYNAMIC = Contract(
    "dynamic",
    Cache.DYNAMIC,
    step=STEP,
    step_after_encoder=STEP[:1],
    lengths=(names.PAST_SEQUENCE_LENGTH, names.TOTAL_SEQUENCE_LENGTH),
    logits=names.SEQUENCE_LENGTH,
)
