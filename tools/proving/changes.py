"""All small changes of a flat graph: each node dropped or exchanged, each number moved, inputs swapped."""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

DROPPED, EXCHANGED, MOVED, SWAPPED = "node dropped", "operator exchanged", "number moved", "inputs swapped"
FACTOR = 1 + 2.0**-6  # of numbers that are moved
LIKE = {
    "Add": ["Sub", "Mul"],
    "Sub": ["Add", "Mul"],
    "Mul": ["Add", "Div"],
    "Div": ["Mul", "Sub"],
    "ReduceMean": ["ReduceMax"],
    "ReduceSum": ["ReduceMax"],
    "ReduceMax": ["ReduceMin"],
    "Tanh": ["Erf"],
    "Erf": ["Tanh"],
    "Sigmoid": ["Tanh"],
    "Swish": ["Gelu"],
    "Relu": ["Abs"],
    "Sqrt": ["Abs"],
    "Greater": ["GreaterOrEqual", "Less"],
    "GreaterOrEqual": ["Greater", "LessOrEqual"],
    "Less": ["LessOrEqual", "Greater"],
    "LessOrEqual": ["Less", "GreaterOrEqual"],
    "And": ["Or"],
    "Or": ["And"],
    "Max": ["Min"],
    "Min": ["Max"],
    "Sin": ["Cos"],
    "Cos": ["Sin"],
    "Floor": ["Ceil"],
    "Ceil": ["Floor"],
    "ArgMax": ["ArgMin"],
}
DIRECTED = ("Sub", "Div", "Pow", "Mod", "MatMul", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
NUMBERS = (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT, onnx.AttributeProto.INTS)


@dataclass(frozen=True)
class Value:
    """The type and shape of a value of the graph, in one run."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Change:
    """A changed graph: the kind of change, the name of the node, and what was changed."""

    kind: str
    node: str
    operator: str
    text: str
    model: onnx.ModelProto


def changes(model: onnx.ModelProto, values: Mapping[str, Value]) -> Iterator[Change]:
    """Every change of a graph without functions, each one alone."""
    known = {model.SerializeToString(deterministic=True)}
    for place, node in enumerate(model.graph.node):
        for kind, text, changed in _of_node(node, values):
            copied = copy.deepcopy(model)
            copied.graph.node[place].CopyFrom(changed)
            if (written := copied.SerializeToString(deterministic=True)) not in known:
                known.add(written)
                yield Change(kind, node.name or node.output[0], node.op_type, text, copied)


def _of_node(node: onnx.NodeProto, values: Mapping[str, Value]) -> Iterator[tuple[str, str, onnx.NodeProto]]:
    """All changes of a node: kind, text, and the node in its place."""
    alike = [name for name in node.input if name in values and values[name] == values.get(node.output[0])]
    if alike and len(node.output) == 1 and node.op_type != "Identity":
        passed = helper.make_node("Identity", alike[:1], node.output, name=node.name)
        yield DROPPED, f"{alike[0]} passed on", passed
    for other in LIKE.get(node.op_type, ()):
        changed = copy.deepcopy(node)
        changed.op_type = other
        yield EXCHANGED, f"{other} instead", changed
    if node.op_type == "Where":
        yield EXCHANGED, "branches exchanged", _with_inputs(node, [0, 2, 1])
    if node.op_type == "Concat":
        yield EXCHANGED, "order reversed", _with_inputs(node, [*range(len(node.input))][::-1])
    if node.op_type == "Softmax":
        yield EXCHANGED, "over another axis", _with_attribute(node, "axis", 1)
    if node.op_type in DIRECTED:
        yield SWAPPED, "inputs swapped", _with_inputs(node, [1, 0])
    for attribute in node.attribute:
        for value in _moved(attribute):
            yield MOVED, f"{attribute.name} {_shown(value)}", _with_attribute(node, attribute.name, value)


def _moved(attribute: onnx.AttributeProto) -> Iterator[object]:
    """Other values of an attribute: whole numbers one up and down, others by a factor."""
    value = helper.get_attribute_value(attribute)
    if attribute.type == onnx.AttributeProto.TENSOR:
        yield from map(numpy_helper.from_array, _moved_array(numpy_helper.to_array(value)))
    elif attribute.type == onnx.AttributeProto.FLOAT:
        yield value * FACTOR
    elif attribute.type == onnx.AttributeProto.INT:
        yield from (value + 1, value - 1)
    elif attribute.type == onnx.AttributeProto.INTS:
        for place in range(len(value)):
            for step in (1, -1):
                yield [one + step * (place == at) for at, one in enumerate(value)]
    elif value in (b"none", b"tanh"):
        yield "tanh" if value == b"none" else "none"


def _moved_array(array: np.ndarray) -> Iterator[np.ndarray]:
    """Other values of a constant: floats by a factor, the ends of whole numbers one up and down."""
    if not array.size:
        return
    if array.dtype.kind == "f":
        yield (array * FACTOR).astype(array.dtype)
        return
    for place in {0, array.size - 1}:
        for step in (1, -1) if array.dtype.kind == "i" else (1,):
            changed = array.copy()
            changed.flat[place] = (
                changed.flat[place] + step if array.dtype.kind == "i" else not changed.flat[place]
            )
            yield changed


def _with_inputs(node: onnx.NodeProto, order: list[int]) -> onnx.NodeProto:
    changed = copy.deepcopy(node)
    changed.input[:] = [node.input[place] for place in order]
    return changed


def _with_attribute(node: onnx.NodeProto, name: str, value: object) -> onnx.NodeProto:
    changed = copy.deepcopy(node)
    others = [one for one in node.attribute if one.name != name]
    del changed.attribute[:]
    changed.attribute.extend([*others, helper.make_attribute(name, value)])
    return changed


def _shown(value: object) -> str:
    if not isinstance(value, onnx.TensorProto):
        return str(value)
    array = numpy_helper.to_array(value)
    return str(array.tolist()) if array.size <= 4 else f"{array.dtype} {list(array.shape)}, moved"
