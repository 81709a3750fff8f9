"""Ours by default: keys and values are buffers of fixed capacity, which a step writes in place.

The caller owns each buffer and binds it as past and present at once. No mask is given: positions, the place
to write and what a token sees all follow from how many slots a row has filled.
"""

from txexport.contracts import names
from txexport.contracts.contract import Contract, ints
from txexport.spec import Cache

STEP = (
    ints(names.INPUT_IDS, names.BATCH_SIZE, names.SEQUENCE_LENGTH),
    ints(names.CACHE_LENGTHS, names.BATCH_SIZE),
    ints(names.LOGITS_INDICES, names.BATCH_SIZE, names.LOGITS_LENGTH),
)
STATIC = Contract(
    "static",
    Cache.STATIC,
    step=STEP,
    step_after_encoder=STEP,
    lengths=(names.CAPACITY, names.CAPACITY),
    logits=names.LOGITS_LENGTH,
)
