"""Our default contract: keys and values are buffers of fixed capacity, which a step writes in place.

The caller owns each buffer and binds it as past and present at once. There is no mask: positions, the slot to
write and the keys that a token attends to all follow from the number of filled slots of a row.
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
