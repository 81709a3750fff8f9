"""Scan nodes in the form that OpenVINO reads: the body declares its types, and uses no outer tensor.

In ONNX a body may leave its types to inference, and may use tensors of the graph around it.
"""

import onnx_ir as ir

from txgraphs._few_buffers import name_all


def with_plain_scans(model: ir.Model) -> ir.Model:
    """The same flat float32 model; an outer tensor that a Scan's body uses becomes a state of the Scan."""
    for node in list(model.graph.all_nodes()):
        if node.op_type != "Scan":
            continue
        body = node.attributes["body"].as_graph()
        outside = _outside(body)
        if outside:
            _enclose(node, body, outside)
        for value in (*body.inputs, *body.outputs):
            value.type = ir.TensorType(ir.DataType.FLOAT)
    return model


def _outside(body: ir.Graph) -> list[ir.Value]:
    """The tensors of the outer graph that a body uses, except constants."""
    inside = {*body.inputs, *(value for node in body for value in node.outputs)}
    read = (value for node in body for value in node.inputs if value is not None and value not in inside)
    return [value for value in dict.fromkeys(read) if not _is_constant(value)]


def _is_constant(value: ir.Value) -> bool:
    producer = value.producer()
    return producer is not None and producer.op_type == "Constant"


def _enclose(node: ir.Node, body: ir.Graph, outside: list[ir.Value]) -> None:
    """Add each outer tensor as a state behind the Scan's own; every iteration passes it on unchanged."""
    assert node.graph is not None
    count = len(body.inputs) - node.attributes["num_scan_inputs"].as_int()  # the number of its own states
    constants = [ir.Value(name=f"{node.name}/constant/{number}") for number in range(len(outside))]
    for value, constant in zip(outside, constants, strict=True):
        for use in [use for use in value.uses() if use.node.graph is body]:
            use.node.replace_input_with(use.idx, constant)
    stays = [ir.node("Identity", [constant]) for constant in constants]
    name_all(stays, f"{node.name}/stays")
    body.extend(stays)
    body.inputs[count:count] = constants
    body.outputs[count:count] = [one.outputs[0] for one in stays]
    inputs = [*node.inputs[:count], *outside, *node.inputs[count:]]
    attributes = {name: one.value for name, one in node.attributes.items() if name != "body"}
    outputs = len(node.outputs) + len(outside)
    again = ir.node("Scan", inputs, {**attributes, "body": body}, num_outputs=outputs)
    name_all([again], f"{node.name}/enclosed")
    results = [*again.outputs[:count], *again.outputs[count + len(outside) :]]
    ir.convenience.replace_nodes_and_values(node.graph, node, [node], [again], node.outputs, results)
