"""Splits and concatenations of many values, for devices whose kernels read and write few of them.

WebGPU promises a kernel eight buffers. ONNX Runtime's Split binds one there for each part that is not empty,
and its Concat of more than it can bind fails at empty ones. The rows of many experts are such values.
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


def name_all(nodes: Sequence[ir.Node], name: str) -> None:
    """Name nodes and their outputs as no others of a flat model are."""
    for number, one in enumerate(nodes):
        one.name = f"{name}/{number}"
        for place, value in enumerate(one.outputs):
            value.name = f"{one.name}/{place}"


def _replace(node: ir.Node, nodes: Sequence[ir.Node], results: list[Any], name: str) -> None:
    """Insert nodes, named after the one whose outputs they compute, in its place."""
    assert node.graph is not None
    name_all(nodes, name)
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], nodes, node.outputs, results)
