"""Validity of graphs as ONNX, checked before a runtime loads them: some crash on an invalid one."""

from collections.abc import Iterable
from pathlib import Path

import onnx

from txexport.errors import first_line
from txexport.verification.linked import for_checker


def invalid_graph(files: Iterable[Path]) -> str | None:
    """The first reason why a graph is no valid ONNX; None if all are valid."""
    for file in files:
        try:
            with for_checker(file) as checked:
                onnx.checker.check_model(str(checked))
        except Exception as error:  # of protobuf too
            return f"{file} is no valid ONNX: {first_line(error)}"
        if (call := _incomplete_call(onnx.load(file, load_external_data=False))) is not None:
            return f"{file} calls {call} without all of its inputs"
    return None


def _incomplete_call(model: onnx.ModelProto) -> str | None:
    """A function that a node calls with fewer inputs than its body reads, which can crash ONNX Runtime."""
    needed = {}
    for function in model.functions:
        read = {name for node in function.node for name in node.input}
        positions = (position for position, name in enumerate(function.input, 1) if name in read)
        needed[function.domain, function.name] = max(positions, default=0)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            if len(node.input) < needed.get((node.domain, node.op_type), 0):
                return str(node.op_type)
    return None
