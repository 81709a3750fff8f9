"""Graphs built by calls: one function for equal layers, and exactly the inputs that it uses."""

import onnx
import onnx_ir as ir
import pytest
from txgraphs._component import component
from txgraphs._graph import Graph
from txgraphs.linear import linear

FLOAT = ir.DataType.FLOAT


@component("y")
def inner(scaled: bool, g, x, factor):
    y = linear(False, g / "dense", x)
    if scaled:
        y = g.op.Mul(y, g.weight("scale"), name="y")
    return y if factor is None else g.op.Mul(y, factor, name="y")


@component("y", "z")
def outer(scaled: bool, g, x, pair, **more):
    x = inner(scaled, g / "first", x, None)
    return inner(False, g / "second", x, more["factor"]), g.op.Add(pair["a"], x, name="x")


def layers(*scaled: bool) -> tuple[Graph, onnx.ModelProto]:
    """A graph of that many outer components."""
    graph = Graph("layers", {})
    x = graph.input("x", FLOAT, ["B", 4])
    for layer, switch in enumerate(scaled):
        x, z = outer(switch, graph / f"layers.{layer}", x, {"a": x, "b": None}, factor=x)
    graph.output(z, "z", FLOAT, ["B", 4])
    return graph, ir.to_proto(graph.model("test"))


def test_equal_layers_are_one_function():
    short, long = (set(layers(*[True] * count)[0].functions) for count in (1, 24))
    assert short == long == {"linear_plain", "inner", "inner_2", "outer"}


def test_a_layer_with_another_switch_is_another_function():
    _graph, model = layers(True, False, True)
    assert [node.op_type for node in model.graph.node] == ["outer", "outer_2", "outer"]
    calls = {f.name: [node.op_type for node in f.node] for f in model.functions}
    assert calls["outer"] != calls["outer_2"]


def test_inputs_are_the_values_and_then_the_weights_that_were_asked_for():
    graph, model = layers(True)
    [function] = [f for f in model.functions if f.name == "outer"]
    weights = ["first.dense.weight", "first.scale", "second.dense.weight"]
    assert list(function.input) == [
        *("x", "pair_a", "pair_b", "factor"),
        *(name.replace(".", "_") for name in weights),
    ]
    [call] = model.graph.node
    assert list(call.input) == ["x", "x", "", "x", *(f"layers.0.{name}" for name in weights)]
    assert graph.uses.keys() == {f"layers.0.{name}" for name in weights}
    assert list(function.output) == ["y", "z"]


def test_values_have_names_of_their_own():
    for function in layers(True, False)[1].functions:
        names = [*function.input, *(name for node in function.node for name in node.output)]
        assert len(names) == len(set(names))
        assert set(function.output) <= set(names)


def test_what_is_not_hashable_is_no_switch():
    with pytest.raises(TypeError, match="unhashable"):
        inner([], Graph("one", {}) / "part", ir.Value(name="x"), None)
