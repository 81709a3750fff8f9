"""Graphs for other tools: without functions, every value computed once, and two decoders in one."""

from collections.abc import Iterable

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    InlinePass,
    RemoveUnusedNodesPass,
)

from txexport.contracts import Port, Signature, cache_names, names
from txgraphs import DOMAIN
from txgraphs._constants import make_tensors


def flatten(model: ir.Model, dtype: ir.DataType = ir.DataType.FLOAT) -> ir.Model:
    """The same computation in operators alone, with numbers of `dtype`; the model must not be used again."""
    model = InlinePass()(model).model
    model.opset_imports.pop(DOMAIN, None)
    make_tensors(model.graph, dtype)  # those that functions were given as numbers
    return model


def tidied(model: ir.Model) -> ir.Model:
    """The same computation, without what is computed twice or never read."""
    for clean in (CommonSubexpressionEliminationPass(), RemoveUnusedNodesPass()):
        model = clean(model).model
    _part_rounded([*model.graph.all_nodes()])
    return model


def _part_rounded(nodes: Iterable[ir.Node]) -> None:
    """Give each product that reads the same rounded numbers nodes of its own that round: so they are fused.

    Their constants are their own too, or ONNX Runtime would put them together again.
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
    """The same node again, over values of `mine` where they are there, to which its output is added."""
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


def merged(first: ir.Model, later: ir.Model, signature: Signature) -> ir.Model:
    """Two flat decoders in one: `later` where there is a past, and else `first`, which makes cross keys.

    Both branches give all outputs: cross keys and values of the past as they came. Weights lie outside of
    them, but for integers, which runtimes multiply with fast where they lie within. Neither model must be
    used again.
    """
    inputs = [_declared(port) for port in signature.inputs]
    held: dict[str, ir.Value] = {}
    for graph in (first.graph, later.graph):
        for name, value in graph.initializers.items():
            if not _within(value):
                held.setdefault(name, _again(value))
    outer = {**{str(value.name): value for value in inputs}, **held}
    branches = [
        _branch(name, model.graph, outer, signature) for name, model in (("past", later), ("start", first))
    ]
    choice = ir.node(
        "If",
        [outer[names.USE_CACHE_BRANCH]],
        dict(zip(("then_branch", "else_branch"), branches, strict=True)),
        outputs=[_declared(port) for port in signature.outputs],
        name="decoder",
    )
    graph = ir.Graph(
        inputs,
        choice.outputs,
        nodes=[choice],
        initializers=[*held.values()],
        opset_imports=first.graph.opset_imports,
        name="decoder_model_merged",
    )
    return ir.Model(
        graph,
        ir_version=first.ir_version,
        producer_name=first.producer_name,
        producer_version=first.producer_version,
    )


def _declared(port: Port) -> ir.Value:
    kind = ir.TensorType(ir.DataType[port.dtype.upper()])
    return ir.Value(name=port.name, type=kind, shape=ir.Shape(port.shape))


def _again(value: ir.Value) -> ir.Value:
    """An initialiser of the same numbers in another graph."""
    return ir.Value(name=value.name, type=value.type, shape=value.shape, const_value=value.const_value)


def _within(value: ir.Value) -> bool:
    """Whether an initialiser belongs into the branch that reads it: integers, and scales of those."""
    wide = value.dtype in (ir.DataType.INT64, ir.DataType.FLOAT, ir.DataType.FLOAT16)
    return not wide or any(node.op_type == "DequantizeLinear" for node, _ in value.uses())


def _branch(name: str, graph: ir.Graph, outer: dict[str, ir.Value], signature: Signature) -> ir.Graph:
    """A graph's nodes over values of the outer one; names within are its own."""
    results = {str(value.name): value for value in graph.outputs}
    for port in signature.outputs:
        if port.name not in results:  # of the past, which stays as it is
            kept = ir.node("Identity", [outer[cache_names.to_past(port.name)]], name=port.name)
            graph.append(kept)
            results[port.name] = kept.outputs[0]
    own = []
    for value in (*graph.inputs, *graph.initializers.values()):
        other = outer.get(str(value.name))
        if other is None:
            other = _again(value)
            own.append(other)
        ir.convenience.replace_all_uses_with(value, other)
    nodes = list(graph)
    graph.outputs.clear()
    graph.remove(nodes)
    _rename(name, nodes)
    for value in own:
        value.name = f"{name}/{value.name}"
    results_in_order = [results[port.name] for port in signature.outputs]
    return ir.Graph([], results_in_order, nodes=nodes, initializers=own, name=name)


def _rename(name: str, nodes: Iterable[ir.Node]) -> None:
    for node in nodes:
        node.name = f"{name}/{node.name}"
        for value in node.outputs:
            value.name = f"{name}/{value.name}"
