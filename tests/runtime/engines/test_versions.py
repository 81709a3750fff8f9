"""An ONNX Runtime that computes a graph wrongly, or not at all, is refused by name before anything runs."""

import json

import onnx
import pytest

import txexport
from txexport.errors import BundleError
from txexport.runtime.engines import onnxruntime as engine
from txexport.support.paths import sha256
from txexport.verification import verify


@pytest.fixture
def older(monkeypatch):
    """A function that has ONNX Runtime say that it is of another version."""
    return lambda version: monkeypatch.setattr(engine.ort, "__version__", version)


@pytest.mark.parametrize("version", ["1.24.4", "1.25.0", "1.27.0"])
def test_several_tokens_over_a_filled_cache_were_wrong(version, bundle_of, older):
    """1.25 to 1.27 run the graph, and are off by as much as the logits are large."""
    older(version)
    with pytest.raises(
        BundleError, match=rf"ONNX Runtime 1\.28 or later, and {version} is here; update it, or"
    ):
        txexport.load(bundle_of("llama"), device="cpu")
    report = verify(bundle_of("llama"), runtime="all", cases="quick", reference="twin")
    skipped = {case.runtime: case.skipped for case in report.cases if case.skipped and "1.28" in case.skipped}
    assert {"onnxruntime", "onnxruntime-unoptimized"} <= skipped.keys()


@pytest.mark.parametrize("version", ["1.28.0", "1.31.1", "1.32.0.dev20261101001", "2.0"])
def test_newer_ones_are_right(version, bundle_of, older):
    older(version)
    txexport.load(bundle_of("llama"), device="cpu")


@pytest.mark.parametrize(
    ("options", "least"),
    [
        ({"opset": 24}, "1.28"),
        ({"opset": 24, "cache": "dynamic"}, "1.24"),
        ({"opset": 23}, "1.24"),
        ({"opset": 21}, "1.19"),
        ({"opset": 17}, "1.18"),
    ],
    ids=str,
)
def test_each_graph_says_what_it_needs(options, least, checkpoint_of, tmp_path, older):
    """In txexport.json, and in the file's own metadata, for those who open nothing else."""
    manifest = txexport.export(checkpoint_of("llama"), tmp_path / "out", only="native", **options)
    [graph] = manifest.native.values()
    model = onnx.load(tmp_path / "out" / graph.file, load_external_data=False)
    assert (
        graph.onnxruntime == {prop.key: prop.value for prop in model.metadata_props}["onnxruntime"] == least
    )
    older(least)
    txexport.load(tmp_path / "out", device="cpu")
    major, minor = map(int, least.split("."))
    older(f"{major}.{minor - 1}.9")
    with pytest.raises(BundleError, match=rf"{major}\.{minor - 1}\.9 is here"):
        txexport.load(tmp_path / "out", device="cpu")


def test_graphs_for_other_clients_say_it_too(bundle_of):
    hub = txexport.load(bundle_of("t5")).bundle.manifest.hub
    assert {graph.onnxruntime for graph in hub.values()} == {"1.19"}


def test_bundle_of_before_is_known_by_its_cache(checkpoint_of, tmp_path, older):
    """It is verified as it is: its graphs have no such note."""
    txexport.export(checkpoint_of("llama"), tmp_path / "out", only="native")
    path = tmp_path / "out" / "txexport.json"
    values = json.loads(path.read_text())
    graph = values["formats"]["float32"]["native"]["model"]
    del graph["onnxruntime"]
    file = tmp_path / "out" / graph["file"]
    model = onnx.load(file, load_external_data=False)
    del model.metadata_props[:]
    onnx.save(model, file)
    graph["sha256"] = sha256(file)
    path.write_text(json.dumps(values))
    assert verify(tmp_path / "out", cases="quick", reference="twin").ok
    older("1.26.0")
    with pytest.raises(BundleError, match=r"ONNX Runtime 1\.28 or later"):
        txexport.load(tmp_path / "out", device="cpu")
