"""Buffers as in `static`, told by the ecosystem's inputs: a shared buffer, as onnxruntime-genai calls it.

The caller owns each buffer and binds it as past and present at once. A row has filled as many slots as its
mask (B,T) has ones before the S new tokens: padding takes none, and stands on the right.
"""

from txexport.contracts import cached, dynamic, names, roles
from txexport.contracts.contract import Contract, Signature
from txexport.errors import SpecError
from txexport.spec import Cache, DecoderSpec, ModelSpec

STEP = tuple(port for port in dynamic.STEP if port.name != names.POSITION_IDS)


def graphs(spec: ModelSpec) -> dict[str, Signature]:
    """A decoder alone, in a graph that stands beside one whose cache grows."""
    if not isinstance(spec, DecoderSpec):
        raise SpecError(f"{type(spec).__name__}: a shared buffer is of a decoder alone")
    capacity = (names.CAPACITY, names.CAPACITY)
    return {roles.SHARED: cached.graphs(spec, STEP, capacity, names.SEQUENCE_LENGTH)[roles.MODEL]}


SHARED = Contract("shared", Cache.STATIC, graphs)
