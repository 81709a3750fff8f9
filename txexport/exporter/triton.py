"""Triton's settings of a model: what a graph takes and gives, in the text form of its protobuf."""

from collections.abc import Iterable

from txexport.contracts import Port, Signature

TYPES = {"int64": "TYPE_INT64", "float": "TYPE_FP32", "bool": "TYPE_BOOL"}


def config(name: str, signature: Signature) -> str:
    """config.pbtxt of a graph for the onnxruntime backend.

    Requests are not put together by Triton: rows of one batch must be of one length there, and ours are not.
    """
    lines = [f'name: "{name}"', 'backend: "onnxruntime"', "max_batch_size: 0"]
    lines += [*_ports("input", signature.inputs), *_ports("output", signature.outputs)]
    return "\n".join(lines) + "\n"


def _ports(kind: str, ports: Iterable[Port]) -> Iterable[str]:
    for port in ports:
        dims = ", ".join(str(dim if isinstance(dim, int) else -1) for dim in port.shape)
        yield f'{kind} {{ name: "{port.name}" data_type: {TYPES[port.dtype]} dims: [ {dims} ] }}'
