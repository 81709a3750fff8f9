"""Graphs without branches, for OpenVINO, which computes the first call of an If of each shape wrongly.

Branches of our graphs are for speed: the second computes all that the first does.
"""

import onnx_ir as ir


def without_branches(model: ir.Model) -> ir.Model:
    """The same flat model, with the second branch in place of each If."""
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
