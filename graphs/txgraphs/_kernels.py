"""Operators without a CUDA kernel, in operators that have one.

ONNX Runtime has kernels for the ThresholdedRelu and Elu of opsets before 22, and finds none for those of 22.
"""

from collections.abc import Callable

import onnx_ir as ir

NEWEST_WITH_KERNELS = 21  # the opset


def spell_missing(model: ir.Model, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Model:
    """The same model, which computes in `dtype`, without the operators of SPELLED."""
    if model.opset_imports[""] <= NEWEST_WITH_KERNELS:
        return model
    bodies: list[ir.Graph | ir.Function] = [model.graph, *model.functions.values()]
    for body in bodies:
        for node in list(body.all_nodes()):  # those of branches too
            nodes = node.graph
            if nodes is not None and node.domain == "" and node.op_type in SPELLED:
                added = SPELLED[node.op_type](node, dtype)
                for number, one in enumerate(added):
                    one.name = f"{node.name}_{number}"
                    for value in one.outputs:
                        value.name = f"{node.outputs[0].name}_{number}"
                    nodes.insert_before(node, one)
                result = added[-1].outputs
                ir.convenience.replace_nodes_and_values(nodes, node, [node], [], node.outputs, result)
    return model


def _thresholded(node: ir.Node, dtype: ir.DataType) -> list[ir.Node]:
    """x, or 0 where it is not above `alpha`."""
    zero, bound = (_number(one, dtype) for one in (0.0, node.attributes["alpha"].as_float()))
    above = ir.node("Greater", [node.inputs[0], bound.outputs[0]])
    chosen = ir.node("Where", [above.outputs[0], node.inputs[0], zero.outputs[0]])
    return [zero, bound, above, chosen]


def _elu(node: ir.Node, dtype: ir.DataType) -> list[ir.Node]:
    """x, or exp(x) - 1 where it is below 0; our graphs leave its factor at 1."""
    assert "alpha" not in node.attributes
    zero, one = (_number(each, dtype) for each in (0.0, 1.0))
    low = ir.node("Min", [node.inputs[0], zero.outputs[0]])
    grown = ir.node("Exp", [low.outputs[0]])
    below = ir.node("Sub", [grown.outputs[0], one.outputs[0]])
    positive = ir.node("Greater", [node.inputs[0], zero.outputs[0]])
    chosen = ir.node("Where", [positive.outputs[0], node.inputs[0], below.outputs[0]])
    return [zero, one, low, grown, below, positive, chosen]


def _number(value: float, dtype: ir.DataType) -> ir.Node:
    return ir.node("Constant", [], {"value": ir.tensor(value, dtype=dtype)})


Spelling = Callable[[ir.Node, ir.DataType], list[ir.Node]]
SPELLED: dict[str, Spelling] = {
    "Elu": _elu,
    "ThresholdedRelu": _thresholded,
}
