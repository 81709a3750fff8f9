"""Triton's settings of a model: the inputs and outputs of a graph, in protobuf's text format."""

from collections.abc import Iterable

from txexport.contracts import Port, Signature
from txexport.contracts.names import BATCH_SIZE

TYPES = {"int64": "TYPE_INT64", "float": "TYPE_FP32", "bool": "TYPE_BOOL"}
SIZES = (
    8,
    16,
    32,
    64,
)  # rows of batches that Triton prefers; the last is the maximum
DELAY = 1000  # microseconds for which a request waits for others


def config(name: str, signature: Signature) -> str:
    """config.pbtxt of a graph for the onnxruntime backend.

    Triton batches requests with rows of equal length, if all inputs and outputs have the batch as their first
    dimension; config.pbtxt then lists the other dimensions only.
    """
    ports = (*signature.inputs, *signature.outputs)
    batched = all(len(port.shape) > 1 and port.shape[0] == BATCH_SIZE for port in ports)
    lines = [f'name: "{name}"', 'backend: "onnxruntime"', f"max_batch_size: {SIZES[-1] if batched else 0}"]
    if batched:
        sizes = ", ".join(map(str, SIZES))
        waiting = f"preferred_batch_size: [ {sizes} ] max_queue_delay_microseconds: {DELAY}"
        lines.append(f"dynamic_batching {{ {waiting} }}")
    lines.append("instance_group [ { kind: KIND_AUTO count: 1 } ]")  # one for each GPU, or one on the CPU
    for kind, listed in (("input", signature.inputs), ("output", signature.outputs)):
        lines += _ports(kind, listed, first=int(batched))
    return "\n".join(lines) + "\n"


def _ports(kind: str, ports: Iterable[Port], first: int) -> Iterable[str]:
    for port in ports:
        dims = ", ".join(str(dim if isinstance(dim, int) else -1) for dim in port.shape[first:])
        yield f'{kind} {{ name: "{port.name}" data_type: {TYPES[port.dtype]} dims: [ {dims} ] }}'
