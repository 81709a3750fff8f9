"""What an ONNX file holds: its inputs and outputs, its operators, and the functions that call them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import onnx

from txexport.contracts import Port
from txexport.errors import BundleError


@dataclass(frozen=True)
class FunctionFacts:
    """A function: `nodes` of its own body, and how often it runs, in functions that call it too."""

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
    except Exception as error:  # protobuf's, the system's: no class is common to them
        raise BundleError(f"{path} cannot be read as ONNX: {error}; export again") from None
    bodies = {(f.domain, f.name, f.overload): f.node for f in model.functions}
    operators: Counter[str] = Counter()
    calls: Counter[tuple[str, str, str]] = Counter()

    def walk(nodes: Iterable[onnx.NodeProto]) -> None:
        for node in nodes:
            key = (node.domain, node.op_type, node.overload)
            if key in bodies:
                calls[key] += 1
                walk(bodies[key])
                continue
            operators[f"{node.domain}::{node.op_type}" if node.domain else node.op_type] += 1
            for attribute in node.attribute:
                for graph in (attribute.g, *attribute.graphs):
                    walk(graph.node)

    walk(model.graph.node)
    return GraphFacts(
        file=path.name,
        ir_version=model.ir_version,
        opsets={opset.domain: opset.version for opset in model.opset_import},
        inputs=[_port(value) for value in model.graph.input],
        outputs=[_port(value) for value in model.graph.output],
        nodes=operators.total(),
        operators=dict(operators.most_common()),
        functions={key[1]: FunctionFacts(len(body), calls[key]) for key, body in bodies.items()},
    )


def _port(value: onnx.ValueInfoProto) -> Port:
    kind = value.type.tensor_type
    if kind.elem_type not in onnx.TensorProto.DataType.values():
        raise BundleError(
            f"'{value.name}' is of type {kind.elem_type}, which ONNX does not have; export again"
        )
    shape: list[int | str] = [dim.dim_param or dim.dim_value for dim in kind.shape.dim]
    return Port(value.name, onnx.TensorProto.DataType.Name(kind.elem_type).lower(), shape)
