"""Inputs, outputs, operators and functions of an ONNX file."""

import graphlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx

from txexport.contracts import Port
from txexport.errors import BundleError

Key = tuple[str, str, str]  # the key of a function: domain, name and overload
MAIN: Key = ("", "", "")
MOST = 2**63  # limit of calls of a function


@dataclass(frozen=True)
class FunctionFacts:
    """A function: `nodes` of its body, and the number of its `calls`, also from other functions."""

    nodes: int
    calls: int


@dataclass(frozen=True)
class GraphFacts:
    """One ONNX file.

    `nodes` and `operators` (by type; those of another domain as domain::type) are what is there once every
    function is replaced by its body, and count the bodies of loops and branches once.
    """

    file: str
    ir_version: int
    opsets: dict[str, int]
    inputs: list[Port]
    outputs: list[Port]
    nodes: int
    operators: dict[str, int]
    functions: dict[str, FunctionFacts]


def read_graph(path: Path) -> GraphFacts:
    """The facts of the ONNX file `path`, without its weights. Raises BundleError where it is damaged."""
    try:
        model = onnx.load(path, load_external_data=False)
        if not model.graph.node:
            raise ValueError("no graph in it")
    except Exception as error:  # exceptions of protobuf and the system share no class
        raise BundleError(f"{path} cannot be read as ONNX: {error}; export again") from None
    bodies = {(f.domain, f.name, f.overload): f.node for f in model.functions}
    operators, calls = _count({**bodies, MAIN: model.graph.node}, path)
    return GraphFacts(
        file=path.name,
        ir_version=model.ir_version,
        opsets={opset.domain: opset.version for opset in model.opset_import},
        inputs=ports(model.graph.input),
        outputs=ports(model.graph.output),
        nodes=operators.total(),
        operators=dict(operators.most_common()),
        functions={key[1]: FunctionFacts(len(body), calls[key]) for key, body in bodies.items()},
    )


def _count(bodies: Mapping[Key, Iterable[onnx.NodeProto]], path: Path) -> tuple[Counter[str], Counter[Key]]:
    """Operators by type once functions are their bodies, and how often each body runs.

    Each is looked at once, however often it is called. Raises BundleError for a function that calls itself,
    and for one that runs more than MOST times.
    """
    counts = {key: _own(nodes, bodies) for key, nodes in bodies.items()}
    try:
        order = [
            *graphlib.TopologicalSorter({key: calls for key, (_, calls) in counts.items()}).static_order()
        ]
    except graphlib.CycleError as error:
        raise BundleError(
            f"{path}: function '{error.args[1][0][1]}' calls itself, which ONNX does not allow; export again"
        ) from None
    operators: Counter[str] = Counter()
    runs = Counter({MAIN: 1})
    for key in reversed(order):  # callers first
        if runs[key] > MOST:
            raise BundleError(f"{path} calls function '{key[1]}' more than {MOST:,} times; export again")
        for name, count in counts[key][0].items():
            operators[name] += runs[key] * count
        for called, count in counts[key][1].items():
            runs[called] += runs[key] * count
    return operators, runs


def _own(
    nodes: Iterable[onnx.NodeProto], functions: Mapping[Key, object]
) -> tuple[Counter[str], Counter[Key]]:
    """The operators of one body with its branches, and the functions that it calls."""
    operators: Counter[str] = Counter()
    calls: Counter[Key] = Counter()
    for node in nodes:
        key = (node.domain, node.op_type, node.overload)
        if key in functions:
            calls[key] += 1
            continue
        operators[f"{node.domain}::{node.op_type}" if node.domain else node.op_type] += 1
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                inner = _own(graph.node, functions)
                operators.update(inner[0])
                calls.update(inner[1])
    return operators, calls


def initializers(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The initialisers of a graph, and of its nodes' branches."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                yield from initializers(inner)


def ports(values: Iterable[onnx.ValueInfoProto]) -> list[Port]:
    """Inputs or outputs of a graph, as a manifest lists them. Raises BundleError for a type of no name."""
    result = []
    for value in values:
        tensor = value.type.tensor_type
        if tensor.elem_type not in onnx.TensorProto.DataType.values():
            raise BundleError(
                f"'{value.name}' is of type {tensor.elem_type}, which ONNX does not have; export again"
            )
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        result.append(Port(value.name, kind, [dim.dim_param or dim.dim_value for dim in tensor.shape.dim]))
    return result
