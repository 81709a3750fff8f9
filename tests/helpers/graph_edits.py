"""Small edits of a graph, from which mutations are made. A `body` is a graph or a function: it has nodes."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

Body = onnx.GraphProto | onnx.FunctionProto


def function(model: onnx.ModelProto, name: str) -> onnx.FunctionProto:
    """The function of that name."""
    return next(function for function in model.functions if function.name == name)


def starting(model: onnx.ModelProto, name: str, place: int = 0) -> onnx.FunctionProto:
    """The function, at `place` of those whose name begins with `name`."""
    return [function for function in model.functions if function.name.startswith(name)][place]


def node(body: Body, kind: str, place: int = 0) -> onnx.NodeProto:
    """The node of that operator or function, counted from `place`."""
    return [node for node in body.node if node.op_type == kind][place]


def named(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    """The node of the graph that has that name."""
    return next(node for node in model.graph.node if node.name == name)


def producer(body: Body, value: str) -> onnx.NodeProto:
    """The node that computes `value`."""
    return next(node for node in body.node if value in node.output)


def attribute(of: onnx.NodeProto, name: str, default: Any = None) -> Any:
    """An attribute's value."""
    return next((helper.get_attribute_value(a) for a in of.attribute if a.name == name), default)


def set_attribute(of: onnx.NodeProto, name: str, value: Any) -> None:
    """Give an attribute another value."""
    kept = [attribute for attribute in of.attribute if attribute.name != name]
    del of.attribute[:]
    of.attribute.extend([*kept, helper.make_attribute(name, value)])


def constant(body: Body, value: Any) -> onnx.NodeProto:
    """The constant with that name."""
    return next(node for node in body.node if node.op_type == "Constant" and constant_value(node) == value)


def constant_value(of: onnx.NodeProto) -> Any:
    """A constant's number, or list of them."""
    return numpy_helper.to_array(attribute(of, "value")).tolist()


def set_constant(of: onnx.NodeProto, value: Any) -> None:
    """Give a constant another value of its type."""
    kind = numpy_helper.to_array(attribute(of, "value")).dtype
    set_attribute(of, "value", numpy_helper.from_array(np.array(value, kind)))


def become(of: onnx.NodeProto, kind: str, *inputs: str, **attributes: Any) -> None:
    """Replace a node by another operator with the same outputs."""
    of.CopyFrom(helper.make_node(kind, inputs, of.output, name=of.name, **attributes))


def drop(of: onnx.NodeProto, place: int = 0) -> None:
    """Return an input of a node as its output."""
    become(of, "Identity", of.input[place])


def drop_mask(body: onnx.FunctionProto, place: int, mask: int) -> None:
    """Drop a product, the one at `place` of them all, with the function's input number `mask`."""
    masked = node(body, "Mul", place)
    assert body.input[mask] in masked.input
    drop(masked)


def other_state(model: onnx.ModelProto, name: str) -> None:
    """Let the third layer read the first one's state."""
    replace_input(blocks(model)[2], f"past_{name}.2", f"past_{name}.0")


def replace_input(of: onnx.NodeProto, old: str, new: str) -> None:
    """Replace an input of a node."""
    assert old in of.input
    of.input[:] = [new if name == old else name for name in of.input]


def swap_inputs(of: onnx.NodeProto, one: str, other: str) -> None:
    """Exchange two inputs, identified by the ends of their names."""
    names = list(of.input)
    i, j = (next(k for k, name in enumerate(names) if name.endswith(end)) for end in (one, other))
    of.input[i], of.input[j] = names[j], names[i]


def through(body: Body, value: str, kind: str, *others: Any, **attributes: Any) -> None:
    """Insert `kind`(value, *others) between `value` and all its readers, those in branches too.

    `others` are numbers, or lists.
    """
    made = [node for node in body.node if value in node.output]
    place = list(body.node).index(made[0]) + 1 if made else 0
    changed, names, added = f"{value}.changed", [], []
    for i, other in enumerate(others):
        what = {int: "value_int", float: "value_float", list: "value_ints"}[type(other)]
        names.append(f"{changed}.{i}")
        added.append(helper.make_node("Constant", [], [names[-1]], **{what: other}))
    readers = [node for node in _nodes(body.node) if value in node.input]
    assert readers, f"nothing reads {value}"
    for reader in readers:
        replace_input(reader, value, changed)
    added.append(helper.make_node(kind, [value, *names], [changed], **attributes))
    for new in reversed(added):
        body.node.insert(place, new)


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes, and those of their branches."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g.node)


def swap_halves(body: Body) -> None:
    """Exchange the two outputs of a function's Split, values and gates."""
    halves = node(body, "Split")
    halves.output[:] = reversed(halves.output)


def convolve_later(body: Body) -> None:
    """Begin a function's convolution over time one vector later."""
    convolution = node(body, "Conv")
    before, after = attribute(convolution, "pads")
    set_attribute(convolution, "pads", [before - 1, after + 1])


def blocks(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """The calls of layers, in order."""
    return [node for node in model.graph.node if "_block" in node.op_type]
