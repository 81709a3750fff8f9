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


def dequantised_whole(model: ir.Model) -> ir.Model:
    """The same flat model; rounded rows that a Split along the first axis parts are dequantised before it.

    More than MOST parts are parts of parts: ONNX Runtime moves a DequantizeLinear behind a Slice. Its CPU
    multiplies in integers where nothing is between a DequantizeLinear and a product, so it is for graphs
    that may run on WebGPU alone.
    """
    for node in list(model.graph.all_nodes()):
        users = [use.node for part in node.outputs for use in part.uses()]
        along = node.attributes.get("axis")
        sizes = node.inputs[1] if len(node.inputs) > 1 else None
        if node.op_type != "Split" or along is None or along.as_int() != 0 or sizes is None:
            continue
        if {use.op_type for use in users} != {"DequantizeLinear"} or len({_step(use) for use in users}) > 1:
            continue
        dequantised = ir.node("DequantizeLinear", [node.inputs[0], *users[0].inputs[1:]])
        nodes, parts = _parts(dequantised.outputs[0], sizes, len(node.outputs))
        for place, part in enumerate(node.outputs):
            for use in list(part.consumers()):
                assert use.graph is not None
                ir.convenience.replace_nodes_and_values(
                    use.graph, use, [use], [], use.outputs, [parts[place]]
                )
        _replace(node, [dequantised, *nodes], parts, str(node.name))
    return model


def _parts(x: ir.Value, sizes: ir.Value, count: int) -> tuple[list[ir.Node], list[ir.Value]]:
    """Nodes that part x along the first axis by `count` sizes, and the parts."""
    if count <= MOST:
        split = ir.node("Split", [x, sizes], {"axis": 0}, num_outputs=count)
        return [split], list(split.outputs)
    counts = [min(-(-count // MOST), count - at) for at in range(0, count, -(-count // MOST))]
    constant = ir.node("Constant", [], {"value": ir.tensor(counts, dtype=ir.DataType.INT64)})
    groups = ir.node("Split", [sizes, constant.outputs[0]], {"axis": 0}, num_outputs=len(counts))
    sums = [ir.node("ReduceSum", [group], {"keepdims": 1}) for group in groups.outputs]
    together = ir.node("Concat", [one.outputs[0] for one in sums], {"axis": 0})
    split = ir.node("Split", [x, together.outputs[0]], {"axis": 0}, num_outputs=len(counts))
    nodes, parts = [constant, groups, *sums, together, split], list[ir.Value]()
    for group, piece, number in zip(groups.outputs, split.outputs, counts, strict=True):
        more, pieces = _parts(piece, group, number)
        nodes, parts = [*nodes, *more], [*parts, *pieces]
    return nodes, parts


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
        one.name = f"{name}/{number}"  # which no node of a flat model is called
        for place, value in enumerate(one.outputs):
            value.name = f"{one.name}/{place}"
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], nodes, node.outputs, results)
