"""Graphs without If nodes, for OpenVINO, which may compute an If wrongly when an input shape is new.

In a decoder's graph, the then-branch is a faster way for a single token. The else-branch takes any number.
"""

import onnx_ir as ir


def without_branches(model: ir.Model) -> ir.Model:
    """The same flat model of a decoder, with the else-branch in place of each If."""
    for node in list(model.graph):
        if node.op_type != "If":
            continue
        branch = node.attributes["else_branch"].as_graph()
        nodes, results = [*branch], [*branch.outputs]
        branch.outputs.clear()
        branch.remove(nodes)
        model.graph.insert_before(node, nodes)
        ir.convenience.replace_nodes_and_values(model.graph, node, [node], [], node.outputs, results)
    return model
