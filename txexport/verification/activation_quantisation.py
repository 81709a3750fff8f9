"""Graphs without the quantisation of their activations, so that they compute exactly.

Quantisation amplifies small errors: two correct runtimes may differ by 1 %. Without it a graph computes with
the stored weights in float32, and is held to float32's error bound. A graph that quantises no activations
runs as it is.
"""

import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import onnx
from onnx import helper

from txexport.errors import BundleError
from txexport.verification.linked import weight_files

QUANTISING = ("QuantizeLinear", "DynamicQuantizeLinear")
DIVIDING = ("Split", "Slice")


def quantises_activations(files: Iterable[Path]) -> bool:
    """True if a node of the graphs quantises activations."""
    protos = (onnx.load(file, load_external_data=False) for file in files)
    return any(_quantises(body) for model in protos for body in (model.graph, *model.functions))


def _quantises(body: onnx.GraphProto | onnx.FunctionProto) -> bool:
    return any(
        node.op_type in QUANTISING
        or any(_quantises(inner) for attribute in node.attribute for inner in _subgraphs(attribute))
        for node in body.node
    )


def _subgraphs(attribute: onnx.AttributeProto) -> Sequence[onnx.GraphProto]:
    return [attribute.g] if attribute.HasField("g") else attribute.graphs


@contextmanager
def without_activation_quantisation(folder: Path, files: Mapping[str, Path]) -> Iterator[dict[str, Path]]:
    """Copies of a bundle's graphs by role that quantise no activations, with their weights, for a context.

    Weights are copied since ONNX Runtime refuses links. Errors about a copy name the bundle's own file.
    """
    with tempfile.TemporaryDirectory(prefix="txexport-") as temporary:
        result = {}
        for role, file in files.items():
            model = onnx.load(file, load_external_data=False)
            for body in (model.graph, *model.functions):
                _remove_quantisation(body)
            result[role] = Path(temporary) / file.relative_to(folder)
            result[role].parent.mkdir(parents=True, exist_ok=True)
            onnx.save(model, result[role])
            for name in weight_files(model):
                if not (result[role].parent / name).exists():
                    shutil.copyfile(file.parent / name, result[role].parent / name)
        try:
            yield result
        except BundleError as error:
            raise BundleError(str(error).replace(temporary, str(folder))) from error


def _remove_quantisation(
    body: onnx.GraphProto | onnx.FunctionProto, around: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Replace quantised activations by their originals in products and dequantisations, in branches too.

    The scale of a dynamically quantised batch becomes 1. Weights of eight bits are cast to float by nodes
    that runtimes fold at load, since integer products would be slow. Quantised rows that are divided
    between experts become rows of floats. `around` has the originals of values around a branch.
    """
    sources = dict(around)
    sources |= {node.output[0]: node.input[0] for node in body.node if node.op_type in QUANTISING}
    for node in body.node:
        if node.op_type in DIVIDING and node.input[0] in sources:
            node.input[0] = sources[node.input[0]]
            sources |= {name: name for name in node.output}
    exact = {
        node.output[0]: sources[node.input[0]]
        for node in body.node
        if node.op_type == "DequantizeLinear" and node.input[0] in sources
    }
    nodes: list[onnx.NodeProto] = []
    for node in body.node:
        name = node.name or node.output[0]
        if node.op_type == "DynamicQuantizeLinear":
            nodes.append(_node("Constant", [], node.output[1], name, value_float=1.0))
        elif node.op_type == "MatMulInteger":
            wide = f"{node.output[0]}_wide"
            nodes.append(_node("Cast", [node.input[1]], wide, f"{name}_wide", to=onnx.TensorProto.FLOAT))
            nodes.append(_node("MatMul", [sources[node.input[0]], wide], node.output[0], name))
        elif node.op_type == "DequantizeLinear" and node.input[0] not in sources and _per_output(node):
            wide = f"{node.output[0]}_wide"
            nodes.append(_node("Cast", [node.input[0]], wide, f"{name}_wide", to=onnx.TensorProto.FLOAT))
            nodes.append(_node("Mul", [wide, node.input[1]], node.output[0], name))
        elif node.op_type in DIVIDING or not (exact | sources).keys() & {*node.output[:1]}:
            node.input[:] = [exact.get(name, name) for name in node.input]
            nodes.append(node)
        for attribute in node.attribute:
            for inner in _subgraphs(attribute):
                _remove_quantisation(inner, sources)
    del body.node[:]
    body.node.extend(nodes)


def _per_output(node: onnx.NodeProto) -> bool:
    """True if a DequantizeLinear has a scale for each output of a matrix (in,out), and no zero points."""
    attributes = {attribute.name: attribute.i for attribute in node.attribute}
    return attributes.get("axis") == 1 and not attributes.get("block_size") and len(node.input) == 2


def _node(operator: str, inputs: Sequence[str], output: str, name: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(operator, inputs, [output], name=name, **attributes)
