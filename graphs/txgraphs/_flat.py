"""Graphs for other tools: without functions, and without repeated computation."""

from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    InlinePass,
    RemoveUnusedNodesPass,
)

from txgraphs import DOMAIN
from txgraphs._constants import make_tensors


def flatten(model: ir.Model, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Model:
    """The same computation without functions, with numbers of `dtype`; the model must not be used again."""
    model = InlinePass()(model).model
    model.opset_imports.pop(DOMAIN, None)
    make_tensors(model.graph, dtype)  # attributes of functions
    return model


def tidied(model: ir.Model) -> ir.Model:
    """The same computation, without repeated or unused nodes."""
    for clean in (CommonSubexpressionEliminationPass(), RemoveUnusedNodesPass()):
        model = clean(model).model
    _part_rounded([*model.graph.all_nodes()])
    return model


def _part_rounded(nodes: Iterable[ir.Node]) -> None:
    """Give each product of the same rounded numbers its own rounding nodes, so that runtimes fuse them.

    Their constants are separate too, or ONNX Runtime would merge them again.
    """
    for node in nodes:
        read = node.inputs[0] if node.op_type == "DequantizeLinear" else None
        rounding = None if read is None else read.producer()
        if rounding is not None and rounding.op_type == "QuantizeLinear":
            for number, (user, at) in enumerate(list(node.outputs[0].uses())[1:], 2):
                mine: dict[ir.Value, ir.Value] = {}
                for one in (rounding, node):
                    for value in one.inputs[1:]:
                        constant = None if value is None else value.producer()
                        if constant is not None and value not in mine:
                            _repeat(constant, number, mine, node)
                    _repeat(one, number, mine, node)
                user.replace_input_with(at, mine[node.outputs[0]])


def _repeat(node: ir.Node, number: int, mine: dict[ir.Value, ir.Value], before: ir.Node) -> None:
    """A copy of a node. Its inputs are replaced by those in `mine`, and its output is added there."""
    value = node.outputs[0]
    name = f"{before.name}_{number}/{value.name}"
    mine[value] = ir.Value(name=name, type=value.type, shape=value.shape)
    again = ir.node(
        node.op_type,
        [None if one is None else mine.get(one, one) for one in node.inputs],
        {name: attribute.value for name, attribute in node.attributes.items()},
        outputs=[mine[value]],
        name=name,
    )
    assert before.graph is not None
    before.graph.insert_before(before, again)
