"""Buffers as in `static`, with the ecosystem's inputs: onnxruntime-genai's shared past-present buffer.

The caller owns each buffer and binds it as past and present at once. The number of filled slots of a row is
the number of ones of its mask (B,T) before the S new tokens: padding takes no slot and is on the right. The
graph accompanies one with a growing cache.
"""

from txexport.contracts import dynamic, names, roles
from txexport.contracts.contract import Contract
from txexport.spec import Cache

SHARED = Contract(
    "shared",
    Cache.STATIC,
    step=tuple(port for port in dynamic.STEP if port.name != names.POSITION_IDS),
    lengths=(names.CAPACITY, names.CAPACITY),
    logits=names.SEQUENCE_LENGTH,
    role=roles.SHARED,
)
