"""Graphs that round activations, without that: what they then compute is exact.

Rounding makes large errors of small ones, so that two right runtimes differ by a hundredth. Without it a
graph computes with the numbers that are stored, and is held to what float32 can promise. A graph without
nodes that round is tried as it is.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from txexport.errors import BundleError
from txexport.verification.linked import weight_files

ROUNDING = ("QuantizeLinear", "DynamicQuantizeLinear")


def rounds(files: Iterable[Path]) -> bool:
    """Tell whether a node of the graphs rounds activations."""
    protos = (onnx.load(file, load_external_data=False) for file in files)
    return any(_rounds(body) for model in protos for body in (model.graph, *model.functions))


def _rounds(body: onnx.GraphProto | onnx.FunctionProto) -> bool:
    return any(
        node.op_type in ROUNDING
        or any(_rounds(inner) for attribute in node.attribute for inner in _subgraphs(attribute))
        for node in body.node
    )


def _subgraphs(attribute: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    return [attribute.g] if attribute.HasField("g") else attribute.graphs


@contextmanager
def unrounded(folder: Path, files: Mapping[str, Path]) -> Iterator[dict[str, Path]]:
    """The graphs of a bundle's folder by role, without rounding, beside copies of their weights, meanwhile.

    ONNX Runtime takes no links to weights. What is raised of a copy meanwhile names the bundle's own file.
    """
    with tempfile.TemporaryDirectory(prefix="txexport-") as made:
        result = {}
        for role, file in files.items():
            model = onnx.load(file, load_external_data=False)
            for body in (model.graph, *model.functions):
                without_rounding(body)
            result[role] = Path(made) / file.relative_to(folder)
            result[role].parent.mkdir(parents=True, exist_ok=True)
            onnx.save(model, result[role])
            for name in weight_files(model):
                if not (result[role].parent / name).exists():
                    shutil.copyfile(file.parent / name, result[role].parent / name)
        try:
            yield result
        except BundleError as error:
            raise BundleError(str(error).replace(made, str(folder))) from error


def without_rounding(body: onnx.GraphProto | onnx.FunctionProto) -> None:
    """Take numbers that are rounded to integers, and multiplied as such or read back, as they are.

    Here and in branches. A batch's own step is then 1, and integers of eight bits become the numbers that
    they stand for in nodes that runtimes fold at load: as integers they would be multiplied slowly.
    """
    steps = {node.output[0]: node.input[0] for node in body.node if node.op_type in ROUNDING}
    exact = {
        node.output[0]: steps[node.input[0]]
        for node in body.node
        if node.op_type == "DequantizeLinear" and node.input[0] in steps
    }
    left: list[onnx.NodeProto] = []
    for node in body.node:
        if node.op_type == "DynamicQuantizeLinear":
            left.append(_node("Constant", [], node.output[1], value_float=1.0))
        elif node.op_type == "MatMulInteger":
            wide = f"{node.output[0]}_wide"
            left.append(_node("Cast", [node.input[1]], wide, to=onnx.TensorProto.FLOAT))
            left.append(_node("MatMul", [steps[node.input[0]], wide], node.output[0]))
        elif node.op_type == "DequantizeLinear" and node.input[0] not in steps and _of_outputs(node):
            wide = f"{node.output[0]}_wide"
            left.append(_node("Cast", [node.input[0]], wide, to=onnx.TensorProto.FLOAT))
            left.append(_node("Mul", [wide, node.input[1]], node.output[0]))
        elif not (node.output and (node.output[0] in exact or node.output[0] in steps)):
            node.input[:] = [exact.get(name, name) for name in node.input]
            left.append(node)
        for attribute in node.attribute:
            for inner in _subgraphs(attribute):
                without_rounding(inner)
    del body.node[:]
    body.node.extend(left)


def _of_outputs(node: onnx.NodeProto) -> bool:
    """Tell whether a DequantizeLinear has a scale for each output of a matrix (in,out), and no zeros."""
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    return attributes.get("axis") == 1 and not attributes.get("block_size") and len(node.input) == 2


def _node(operator: str, inputs: Sequence[str], output: str, **attributes: Any) -> onnx.NodeProto:
    """A node that is called as its output is: names of nodes differ."""
    return helper.make_node(operator, inputs, [output], name=output, **attributes)
