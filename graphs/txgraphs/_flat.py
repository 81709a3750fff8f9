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
    return model


def merged(first: ir.Model, later: ir.Model, signature: Signature) -> ir.Model:
    """Two flat decoders in one: `later` where there is a past, and else `first`, which makes cross keys.

    Both branches give all outputs: cross keys and values of the past as they came. Neither model must be
    used again.
    """
    inputs = [_declared(port) for port in signature.inputs]
    held: dict[str, ir.Value] = {}
    for name, value in (*first.graph.initializers.items(), *later.graph.initializers.items()):
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


def _branch(name: str, graph: ir.Graph, outer: dict[str, ir.Value], signature: Signature) -> ir.Graph:
    """A graph's nodes over values of the outer one; names within are its own."""
    results = {str(value.name): value for value in graph.outputs}
    for port in signature.outputs:
        if port.name not in results:  # of the past, which stays as it is
            kept = ir.node("Identity", [outer[cache_names.to_past(port.name)]], name=port.name)
            graph.append(kept)
            results[port.name] = kept.outputs[0]
    for value in (*graph.inputs, *graph.initializers.values()):
        ir.convenience.replace_all_uses_with(value, outer[str(value.name)])
    nodes = list(graph)
    graph.outputs.clear()
    graph.remove(nodes)
    _rename(name, nodes)
    return ir.Graph([], [results[port.name] for port in signature.outputs], nodes=nodes, name=name)


def _rename(name: str, nodes: Iterable[ir.Node]) -> None:
    for node in nodes:
        node.name = f"{name}/{node.name}"
        for value in node.outputs:
            value.name = f"{name}/{value.name}"
