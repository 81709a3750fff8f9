"""Products of rounded rows with an expert's matrices, in an If: for devices that dequantise no empty value.

ONNX Runtime's DequantizeLinear fails at one on WebGPU, and no token may have chosen an expert.
"""

import numpy as np
import onnx_ir as ir

from txgraphs._few_buffers import name_all


def only_of_chosen(model: ir.Model) -> ir.Model:
    """The same flat model; what multiplies rounded rows of a Split is in an If that leaves empty parts out.

    There it stays as it is: ONNX Runtime multiplies in integers where a DequantizeLinear is right before a
    product, and rounds rows that come from elsewhere again.
    """
    for node in list(model.graph.all_nodes()):
        users = [use.node for part in node.outputs for use in part.uses()]
        if node.op_type != "Split" or {use.op_type for use in users} != {"DequantizeLinear"}:
            continue
        sizes, graph = node.inputs[1], node.graph
        assert sizes is not None
        assert graph is not None
        zero = _constant(np.array([0]))
        chosen = ir.node("Greater", [sizes, zero.outputs[0]])
        numbers = [_constant(np.array([number])) for number in range(len(node.outputs))]
        each = [ir.node("Gather", [chosen.outputs[0], number.outputs[0]]) for number in numbers]
        added, name = [zero, chosen, *numbers, *each], f"{node.name}/rows"
        name_all(added, name)
        graph.insert_after(node, added)
        for number, (part, condition) in enumerate(zip(node.outputs, each, strict=True)):
            _enclose(graph, condition.outputs[0], part, f"{name}/{number}")
    return model


def _enclose(graph: ir.Graph | ir.Function, condition: ir.Value, part: ir.Value, name: str) -> None:
    """Move the products of a part of rounded rows into an If, with what dequantises rows and matrices."""
    rounded = [use.node for use in part.uses()]
    products = [use.node for one in rounded for use in one.outputs[0].uses()]
    matrices = [_producer(product.inputs[1]) for product in products]
    nodes = [*rounded, *matrices, *products]
    copies = [ir.node(one.op_type, one.inputs, dict(one.attributes)) for one in nodes]
    inner = {one.outputs[0]: copy.outputs[0] for one, copy in zip(nodes, copies, strict=True)}
    for copy in copies:
        for place, value in enumerate(copy.inputs):
            if value in inner:
                copy.replace_input_with(place, inner[value])
    empty = [_constant(np.zeros((0, _outputs(matrix)), np.float32)) for matrix in matrices]
    name_all(copies, f"{name}/then")
    name_all(empty, f"{name}/else")
    results = [product.outputs[0] for product in products]
    then = ir.Graph([], [inner[result] for result in results], nodes=copies, name=f"{name}/then")
    other = ir.Graph([], [one.outputs[0] for one in empty], nodes=empty, name=f"{name}/else")
    branches = {"then_branch": then, "else_branch": other}
    choice = ir.node("If", [condition], branches, num_outputs=len(results))
    name_all([choice], name)
    ir.convenience.replace_nodes_and_values(graph, products[0], [], [choice], results, choice.outputs)
    graph.remove([*reversed(nodes)], safe=True)


def _constant(numbers: np.ndarray) -> ir.Node:
    return ir.node("Constant", [], {"value": ir.tensor(numbers)})


def _producer(value: ir.Value | None) -> ir.Node:
    """The node that makes a value of the graph."""
    assert value is not None
    node = value.producer()
    assert node is not None
    return node


def _outputs(matrix: ir.Node) -> int:
    """The number of outputs of a dequantised matrix (in,out)."""
    stored = matrix.inputs[0]
    assert stored is not None
    assert stored.shape is not None
    size = stored.shape[1]
    assert isinstance(size, int)
    return size
