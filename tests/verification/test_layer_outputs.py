"""Weights that are wrong in the graph are seen by cases, though every answer of the model stays right."""

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from helpers.bundle_edits import graph_path
from helpers.graph_edits import function, node
from onnx import helper

from txexport import compare, export, verify
from txexport.contracts import OUTPUTS


def giving(model: onnx.ModelProto, output: str) -> onnx.NodeProto:
    """The node that gives an output of the graph."""
    return next(node for node in model.graph.node if output in node.output)


def exchanged(one: str, other: str) -> Callable[[onnx.ModelProto], None]:
    """A mutation that gives each of two outputs what the other should be."""

    def mutate(model: onnx.ModelProto) -> None:
        first, second = giving(model, one), giving(model, other)
        first.input[0], second.input[0] = second.input[0], first.input[0]

    return mutate


def next_layer(name: str) -> Callable[[onnx.ModelProto], None]:
    """A mutation by which layer 0 gives what layer 1 gives."""

    def mutate(model: onnx.ModelProto) -> None:
        giving(model, f"{name}.0").input[0] = giving(model, f"{name}.1").input[0]

    return mutate


def permuted_heads(name: str) -> Callable[[onnx.ModelProto], None]:
    """A mutation that gives heads 0 and 1 in the other order."""

    def mutate(model: onnx.ModelProto) -> None:
        gives = giving(model, f"{name}.0")
        heads = next(o for o in model.graph.output if o.name == f"{name}.0").type.tensor_type.shape.dim[1]
        order = [1, 0, *range(2, heads.dim_value)]
        model.graph.initializer.append(
            helper.make_tensor("order", onnx.TensorProto.INT64, [len(order)], order)
        )
        gives.op_type = "Gather"
        gives.input.append("order")
        gives.attribute.append(helper.make_attribute("axis", 1))

    return mutate


def instead(component: str, make: Callable[[str], onnx.NodeProto]) -> Callable[[onnx.ModelProto], None]:
    """A mutation by which a component gives as weights what `make` does with its scores."""

    def mutate(model: onnx.ModelProto) -> None:
        body = function(model, component)
        scores, softmax = node(body, "scores").output[0], node(body, "masked_softmax")
        weights = softmax.output[0]
        softmax.output[0] = "true_weights"
        node(body, "weighted_sum").input[0] = "true_weights"
        made = make(scores)
        made.output.append(weights)
        body.node.append(made)

    return mutate


def before_softmax(scores: str) -> onnx.NodeProto:
    return helper.make_node("Identity", [scores], [])


def without_mask(scores: str) -> onnx.NodeProto:
    return helper.make_node("Softmax", [scores], [], axis=-1)


MUTATIONS = [
    ("bert", None, "model", "next layer", next_layer("attentions")),
    ("bert", None, "model", "next layer's vectors", next_layer("hidden_states")),
    ("bert", None, "model", "permuted heads", permuted_heads("attentions")),
    ("bert", None, "model", "before softmax", instead("attention", before_softmax)),
    ("bert", None, "model", "without mask", instead("attention", without_mask)),
    ("llama", "static", "model", "next layer", next_layer("attentions")),
    ("llama", "static", "model", "permuted heads", permuted_heads("attentions")),
    ("llama", "static", "model", "before softmax", instead("cached_attention", before_softmax)),
    ("llama", "dynamic", "model", "without mask", instead("cached_attention", without_mask)),
    (
        "bart",
        "dynamic",
        "decoder_model",
        "own for cross",
        exchanged("decoder_attentions.0", "cross_attentions.0"),
    ),
    ("bart", "static", "decoder_model", "next layer", next_layer("cross_attentions")),
    ("bart", "static", "decoder_model", "permuted heads", permuted_heads("cross_attentions")),
    ("bart", "static", "decoder_model", "without mask", instead("cross_attention", without_mask)),
]


@pytest.fixture(scope="module")
def bundle_with(checkpoint_of, tmp_path_factory):
    """A function from a family and a cache to a bundle of our graphs with every layer's outputs."""
    made: dict[tuple, Path] = {}

    def get(family: str, cache: str | None) -> Path:
        if (family, cache) not in made:
            made[family, cache] = tmp_path_factory.mktemp("with") / family
            export(checkpoint_of(family), made[family, cache], cache=cache, only="native", outputs=OUTPUTS)
        return made[family, cache]

    return get


@pytest.mark.parametrize(
    ("family", "cache", "role", "name", "mutate"), MUTATIONS, ids=[f"{m[0]}-{m[1]}-{m[3]}" for m in MUTATIONS]
)
def test_wrong_weights_are_caught(family, cache, role, name, mutate, bundle_with):
    folder = bundle_with(family, cache)
    file = graph_path(folder, role)
    good = file.read_bytes()
    model = onnx.load_model_from_string(good)
    mutate(model)
    try:
        onnx.save(model, file)
        report = verify(folder, cases="quick", allow_edited=True)
    finally:
        file.write_bytes(good)
    wrong = {
        (case.reference, check.output.rpartition(".")[0])
        for case in report.failed
        for check in case.checks
        if not check.ok
    }
    assert {reference for reference, _ in wrong} == {"twin", "transformers"}
    assert all(kind.endswith(("attentions", "hidden_states")) for _, kind in wrong)  # and answers stay right


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_bundles_are_compared_with_each_other(cache, bundle_with):
    """Every layer of a decoder, of which one cache is longer than the other."""
    other = {"static": "dynamic", "dynamic": "static"}[cache]
    report = compare(bundle_with("llama", cache), bundle_with("llama", other), cases="quick")
    assert report.ok
    found = {check.output for case in report.cases for check in case.checks}
    assert {"attentions.0", "attentions.1", "hidden_states.2"} <= found


def test_a_side_without_them_is_told(bundle_with, bundle_of):
    report = compare(bundle_with("llama", "static"), bundle_of("llama", "static"), cases="quick")
    assert not report.ok
    assert "attentions.0" in next(case.summary for case in report.cases if not case.ok)
