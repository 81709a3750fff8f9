"""The range of integer inputs: the number of rows of the tables that they index."""

from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import inliner

# Operators that pass on the integers of their first input, and those that pass on the rows of a table.
SAME_INDICES = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand"}
SAME_ROWS = {"Cast", "CastLike", "Identity", "DequantizeLinear"}


def index_limits(path: Path) -> dict[str, int]:
    """For each input that indexes stored tables, the number of rows of the smallest."""
    proto = inliner.inline_local_functions(onnx.load(path, load_external_data=False))
    tables = {name: int(dims[0]) for name, dims in _stored(proto.graph) if dims}
    origins = {port.name: port.name for port in proto.graph.input}
    limits: dict[str, int] = {}
    for node in _nodes(proto.graph):
        source = node.input[0] if node.input else ""
        if node.op_type in SAME_INDICES and source in origins:
            origins[node.output[0]] = origins[source]
        if node.op_type in SAME_ROWS and source in tables:
            tables[node.output[0]] = tables[source]
        if node.op_type == "Gather" and node.input[1] in origins and source in tables and not _axis(node):
            name = origins[node.input[1]]
            limits[name] = min(tables[source], limits.get(name, tables[source]))
    return limits


def _axis(gather: onnx.NodeProto) -> int:
    return next((attribute.i for attribute in gather.attribute if attribute.name == "axis"), 0)


def _stored(graph: onnx.GraphProto) -> Iterator[tuple[str, list[int]]]:
    """Names and dimensions of initialisers and constants, in branches too."""
    for tensor in graph.initializer:
        yield tensor.name, list(tensor.dims)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _stored(attribute.g)
            elif node.op_type == "Constant" and attribute.type == onnx.AttributeProto.TENSOR:
                yield node.output[0], list(attribute.t.dims)


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)
