"""Splits and concatenations as WebGPU takes them. The rows of many experts are such values.

WebGPU promises a kernel eight buffers. ONNX Runtime's Split binds one there for each part that is not empty,
and its Concat of more than it can bind fails at empty ones. Its DequantizeLinear there fails at an empty
value, as the rows of an expert that no token chose are.
"""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir

MOST = 7  # parts; the eighth buffer is the value that they make up


def with_few_buffers(model: ir.Model) -> ir.Model:
    """The same flat model, with at most MOST parts in a Split or Concat along the first axis."""
    for node in list(model.graph.all_nodes()):
        axis = node.attributes.get("axis")
        if axis is None or axis.as_int() != 0 or node.graph is None:
            continue
        sizes = node.inputs[1] if len(node.inputs) > 1 else None
        if node.op_type == "Split" and len(node.outputs) > MOST and sizes is not None:
            _slice(node, sizes)
        elif node.op_type == "Concat" and len(node.inputs) > MOST:
            _join(node)
    return model


def rounded_whole(model: ir.Model) -> ir.Model:
    """The same flat model; rows that are rounded, parted by a Split along the first axis and dequantised are
    rounded as floats instead, and then parted: to the same numbers.

    A DequantizeLinear before the parts would not do: ONNX Runtime moves it behind slices. Its CPU multiplies
    in integers where nothing is between a DequantizeLinear and a product, so it is for graphs that may run
    on WebGPU alone.
    """
    for node in list(model.graph.all_nodes()):
        along = node.attributes.get("axis")
        if node.op_type != "Split" or along is None or along.as_int() != 0 or node.graph is None:
            continue
        rounding = node.inputs[0].producer() if node.inputs[0] is not None else None
        users = [use.node for part in node.outputs for use in part.uses()]
        if rounding is None or {use.op_type for use in users} != {"DequantizeLinear"}:
            continue
        if rounding.op_type != "QuantizeLinear" or {_step(use) for use in users} != {_step(rounding)}:
            continue
        rows, step = rounding.inputs[:2]
        steps = ir.node("Div", [rows, step])
        whole = ir.node("Round", steps.outputs)
        rounded = ir.node("Mul", [whole.outputs[0], step])
        parts = ir.node(
            "Split",
            [rounded.outputs[0], *node.inputs[1:]],
            dict(node.attributes),
            num_outputs=len(node.outputs),
        )
        for place, part in enumerate(node.outputs):
            for use in list(part.consumers()):
                assert use.graph is not None
                ir.convenience.replace_nodes_and_values(
                    use.graph, use, [use], [], use.outputs, [parts.outputs[place]]
                )
        _replace(node, [steps, whole, rounded, parts], list(parts.outputs), str(node.name))
        if not rounding.outputs[0].uses():
            assert rounding.graph is not None
            rounding.graph.remove(rounding)
    return model


def _step(node: ir.Node) -> tuple[bytes | str | None, ...]:
    """The bytes of a scale and a zero, or their names where they are no constants."""
    values = [value for value in node.inputs[1:] if value is not None]
    constants = map(ir.convenience.get_const_tensor, values)
    return tuple(
        value.name if one is None else one.tobytes() for value, one in zip(values, constants, strict=True)
    )


def _slice(node: ir.Node, sizes: ir.Value) -> None:
    """Slices in place of a Split."""
    count, name = len(node.outputs), str(node.name)
    constants = {
        label: ir.node("Constant", [], {"value": ir.tensor(numbers, dtype=ir.DataType.INT64)})
        for label, numbers in (("axis", [0]), ("first", 0), ("ones", [1] * count))
    }
    axis, first, ones = (constant.outputs[0] for constant in constants.values())
    ends = ir.node("CumSum", [sizes, first])
    starts = ir.node("Sub", [ends.outputs[0], sizes])
    each = [
        ir.node("Split", [one.outputs[0], ones], {"axis": 0}, num_outputs=count) for one in (starts, ends)
    ]
    slices = [
        ir.node("Slice", [node.inputs[0], start, end, axis])
        for start, end in zip(*(one.outputs for one in each), strict=True)
    ]
    results = [one.outputs[0] for one in slices]
    _replace(node, [*constants.values(), ends, starts, *each, *slices], results, name)


def _join(node: ir.Node) -> None:
    """Concatenations of concatenations in place of one."""
    nodes: list[ir.Node] = []
    values = list(node.inputs)
    while len(values) > 1:
        groups = [values[at : at + MOST] for at in range(0, len(values), MOST)]
        values = []
        for group in groups:
            if len(group) > 1:
                nodes.append(ir.node("Concat", group, {"axis": 0}))
            values.append(nodes[-1].outputs[0] if len(group) > 1 else group[0])
    _replace(node, nodes, values, str(node.name))


def _replace(node: ir.Node, nodes: Sequence[ir.Node], results: list[Any], name: str) -> None:
    """Insert nodes, named after the one whose outputs they compute, in its place."""
    assert node.graph is not None
    for number, one in enumerate(nodes):
        one.name = f"{name}_{number}"
        for place, value in enumerate(one.outputs):
            value.name = f"{one.name}_{place}"
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], nodes, node.outputs, results)
