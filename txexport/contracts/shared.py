"""Buffers as in `static`, told by the ecosystem's inputs: a shared buffer, as onnxruntime-genai calls it.

The caller owns each buffer and binds it as past and present at once. A row has filled as many slots as its
mask (B,T) has ones before the S new tokens: padding takes none, and stands on the right. The graph stands
beside one whose cache grows.
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
