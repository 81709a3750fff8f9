"""`--for genai`: a decoder over a buffer that it shares with its client, told by a mask, is proved too."""

import json
import shutil

import onnx
import pytest
from helpers.graph_edits import node, through

from txexport import bundle
from txexport.contracts import roles
from txexport.errors import UnsupportedError
from txexport.exporter import export
from txexport.verification import verify
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import graph_results

FILE = roles.hub_path(roles.SHARED)


@pytest.fixture
def made(checkpoint_of, tmp_path):
    """A function from a model_type to its bundle for genai."""

    def get(model_type: str, **options):
        export(checkpoint_of(model_type), tmp_path / model_type, client="genai", **options)
        return tmp_path / model_type

    return get


@pytest.mark.parametrize("opset", [24, 17])
@pytest.mark.parametrize("model_type", ["gpt2", "mistral", "gemma2", "bloom"])
def test_it_is_equal(model_type, opset, made):
    """Among them windows, caps and slopes, which read a mask of what is used of the buffer."""
    folder = made(model_type, opset=opset)
    report = verify(folder, cases="quick")
    assert report.ok, facts_line(report)
    assert graph_results(report) == {
        roles.hub_path(roles.MODEL): "equal, 7 cases",
        FILE: "equal, 4 cases",  # without left padding, for which it is not, and what our runtime generates
    }
    [imported] = onnx.load(folder / FILE, load_external_data=False).opset_import
    assert imported.version == opset


@pytest.mark.parametrize(
    ("value", "kind", "other"),
    [
        ("cache_lengths", "Add", 1),
        ("attention_mask", "Max", 1),  # padding takes slots
        ("attention_mask", "Min", 0),  # nothing is past
        ("used", "Sub", 1),
    ],
)
def test_a_buffer_told_otherwise_is_caught(value, kind, other, made):
    folder = made("gpt2")
    model = onnx.load(folder / FILE, load_external_data=False)
    places = {"cache_lengths": node(model.graph, "ReduceSum").output[0], "used": used(model.graph)}
    through(model.graph, places.get(value, value), kind, other)
    onnx.save(model, folder / FILE)
    report = verify(folder, reference="twin", cases="quick", allow_edited=True)
    assert {case.name for case in report.failed} >= {"three ragged rows in chunks"}
    assert graph_results(report)[roles.hub_path(roles.MODEL)].startswith("equal, ")
    assert graph_results(report)[FILE].endswith("cases failed")


def used(graph: onnx.GraphProto) -> str:
    """The number of slots that attention reads."""
    key = node(graph, "Attention").input[1]
    return next(found.input[2] for found in graph.node if found.output[0] == key)


def test_one_file_of_weights_serves_both(made):
    folder = made("gpt2")
    assert [path.name for path in folder.rglob("*_data")] == ["model.onnx_data"]
    settings = json.loads((folder / "genai_config.json").read_text())
    assert settings["model"]["decoder"] == {"filename": FILE}
    assert settings["search"]["past_present_share_buffer"] is True
    graph = onnx.load(folder / FILE, load_external_data=False).graph
    scattered = [found for found in graph.node if found.op_type == "TensorScatter"]
    assert len(scattered) == 2 * 2  # keys and values of each layer, in place


DECODERS = "'genai' is for decoders only, not "
STATES = (
    "'genai' knows the states of a convolution and of one recurrence in a layer, but this model has others"
)


@pytest.mark.parametrize(
    ("model_type", "message"),
    [("bert", DECODERS), ("t5", DECODERS), ("whisper", DECODERS), ("rwkv", STATES)],
)
def test_what_has_no_such_buffer_is_refused(model_type, message, made):
    with pytest.raises(UnsupportedError, match=message):
        made(model_type)


def test_what_keeps_two_sizes_is_refused(made, checkpoint_of, tmp_path):
    """onnxruntime-genai makes keys and values of one size; without settings, it says that it has none."""
    with pytest.raises(UnsupportedError, match="'genai' needs keys and values of one size in all layers"):
        made("deepseek_v3")
    export(checkpoint_of("deepseek_v3"), tmp_path / "out")
    assert not (tmp_path / "out/genai_config.json").exists()


def test_it_lists_the_shared_graph(made):
    folder = made("gpt2")
    assert {role: graph.file for role, graph in bundle.read(folder).hub.items()} == {
        roles.MODEL: "onnx/model.onnx",
        roles.SHARED: "onnx/model_shared.onnx",
    }
    shutil.copyfile(folder / "onnx/model.onnx", folder / FILE)
    [case, *_] = verify(folder, reference="twin", cases=["exported graphs"]).failed
    assert case.summary.startswith(f"{FILE} is not the exported graph")
