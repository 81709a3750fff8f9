"""The weights that align tokens with a sound are proved, ours and those of other clients' decoders."""

import onnx
import pytest
from helpers import whisper_cases
from helpers.bundle_edits import graph_path

from txexport import bundle, compare, export, verify
from txexport.contracts import roles

HEADS = [[0, 1], [1, 0], [1, 2]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("aligned")
    whisper_cases.save(folder / "in")
    export(folder / "in", folder / "out")
    return folder / "out"


def other_order(model: onnx.ModelProto) -> None:
    """Two heads in the other order."""
    joined = next(node for node in model.graph.node if "alignment_weights" in node.output)
    joined.input[0], joined.input[1] = joined.input[1], joined.input[0]


def another_head(model: onnx.ModelProto) -> None:
    """One head is read twice."""
    first, second, _ = [
        node for node in model.graph.node if node.op_type == "Gather" and "head" in node.input[1]
    ]
    second.input[1] = first.input[1]


def first_layer(model: onnx.ModelProto) -> None:
    """The heads of the second layer are read from the first."""
    first, *others = [
        node for node in model.graph.node if node.op_type == "Gather" and "head" in node.input[1]
    ]
    for node in others:
        node.input[0] = first.input[0]


def exchanged(model: onnx.ModelProto) -> None:
    """The weights of two layers in the other order."""
    first, second = (
        next(node for node in model.graph.node if name in node.output)
        for name in ("cross_attentions.0", "cross_attentions.1")
    )
    first.input[0], second.input[0] = second.input[0], first.input[0]


def wrong_outputs(folder, file, mutate) -> set[tuple[str, str]]:
    """The references and outputs that differ once a graph is changed."""
    good = file.read_bytes()
    model = onnx.load_model_from_string(good)
    mutate(model)
    try:
        onnx.save(model, file)
        report = verify(folder, cases="quick", allow_edited=True)
    finally:
        file.write_bytes(good)
    return {(case.reference, check.output) for case in report.failed for check in case.checks if not check.ok}


@pytest.mark.parametrize("mutate", [other_order, another_head, first_layer])
def test_wrong_weights_of_our_graph_are_caught(mutate, folder):
    wrong = wrong_outputs(folder, graph_path(folder, roles.ALIGNMENT), mutate)
    assert wrong == {("twin", "alignment_weights"), ("transformers", "alignment_weights")}


def test_wrong_weights_of_other_clients_are_caught(folder):
    file = folder / bundle.read(folder).hub[roles.DECODER_MERGED].file
    wrong = wrong_outputs(folder, file, exchanged)
    assert wrong == {("transformers", "cross_attentions.0"), ("transformers", "cross_attentions.1")}


def test_every_number_of_the_weights_is_compared(folder):
    report = verify(folder, cases="quick")
    assert report.ok
    elements = {
        (case.reference, check.output): check.elements
        for case in report.cases
        for check in case.checks
        if check.output.startswith(("alignment_weights", "cross_attentions."))
    }
    assert elements["twin", "alignment_weights"] == elements["transformers", "alignment_weights"] > 0
    assert {output for _, output in elements} == {
        "alignment_weights",
        *(f"cross_attentions.{layer}" for layer in range(3)),
    }
    assert report.numbers["transformers"]["attentions"] > report.numbers["twin"]["attentions"] > 0


def test_heads_that_a_model_lacks_give_other_clients_no_weights(tmp_path):
    for number, heads in enumerate((None, [[7, 0]], [[0, 9]], [[0]], "none", [])):
        whisper_cases.save(tmp_path / f"in{number}", settings={"alignment_heads": heads})
        manifest = export(tmp_path / f"in{number}", tmp_path / f"out{number}")
        assert manifest.spec["alignment"]["heads"] == [[layer, head] for layer in (1, 2) for head in range(4)]
        for graph in manifest.hub.values():
            assert not [port.name for port in graph.outputs if port.name.startswith("cross_attentions")]
    assert compare(tmp_path / "out0", tmp_path / "out1", cases="quick").ok


@pytest.mark.parametrize(
    "options", [{"dtype": "int8"}, {"opset": 18}, {"cache": "dynamic"}, {"inline": True}], ids=str
)
def test_other_exports_align_too(options, tmp_path):
    whisper_cases.save(tmp_path / "in")
    export(tmp_path / "in", tmp_path / "out", only="native", **options)
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report.failed
    outputs = {check.output for case in report.cases for check in case.checks}
    assert "alignment_weights" in outputs
