"""Bundles for other clients alone: what of them our runtime runs, and what it says of the rest."""

import re

import numpy as np
import onnxruntime as ort
import pytest

from txexport import bundle
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.exporter import bundle_writing, export
from txexport.runtime import load

FORMS = {
    "hub": {"only": "hub"},
    "single file": {"single_file": True},
    "web": {"client": "web"},
    "openvino": {"client": "openvino"},
    "triton": {"client": "triton"},
    "genai": {"client": "genai"},
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_decoder_runs_as_from_its_own_graph(form, checkpoint_of, bundle_of, tmp_path):
    export(checkpoint_of("gpt2"), tmp_path / "out", **form)
    prompts, options = [[5, 6, 7], [9]], {"max_new_tokens": 8, "num_beams": 2}
    found = load(tmp_path / "out", device="cpu").generate_ids(prompts, **options)
    assert found == load(bundle_of("gpt2"), device="cpu").generate_ids(prompts, **options)


@pytest.mark.parametrize("model_type", ["bert", "t5"])
def test_a_single_file_is_whole_without_a_folder(model_type, checkpoint_of, bundle_of, tmp_path):
    """Databases and services hand a runtime bytes."""
    export(checkpoint_of(model_type), tmp_path / "out", single_file=True)
    graph = next(iter(bundle.read(tmp_path / "out").hub.values()))
    session = ort.InferenceSession(
        (tmp_path / "out" / graph.file).read_bytes(), providers=["CPUExecutionProvider"]
    )
    feeds = {port.name: np.ones((2, 5), np.int64) for port in graph.inputs}
    found = session.run(["last_hidden_state"], feeds)[0]
    role = "encoder_model" if model_type == "t5" else "model"
    expected = load(bundle_of(model_type), device="cpu").run(role, **feeds)["last_hidden_state"]
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("model_type", ["t5", "clip"])
def test_what_it_cannot_run_is_refused_in_one_line(model_type, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", only="hub")
    said = f"{tmp_path / 'out'} has only graphs for other clients; to run it, export without --only hub"
    with pytest.raises(BundleError, match=f"^{re.escape(said)}$"):
        load(tmp_path / "out", device="cpu")


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"only": "mine"}, "only is 'mine', expected native or hub"),
        ({"client": "ie6"}, "client is 'ie6', expected web, triton, openvino"),
        ({"only": "native", "single_file": True}, "a single file is for other clients, and native graphs"),
        ({"only": "native", "client": "web"}, "'web' is for other clients, and native graphs are not"),
        ({"only": "hub", "cache": "static"}, "other clients know no static cache; leave it out"),
    ],
    ids=str,
)
def test_options_that_do_not_go_together(form, said, checkpoint_of, tmp_path):
    with pytest.raises(InputError, match=said):
        export(checkpoint_of("gpt2"), tmp_path / "out", **form)
    assert list(tmp_path.iterdir()) == []


def test_weights_too_large_for_one_file_are_refused_at_once(checkpoint_of, tmp_path, monkeypatch):
    monkeypatch.setattr(bundle_writing, "SINGLE", 1000)
    with pytest.raises(
        UnsupportedError, match=r"weights of [\d,]+ bytes are too large for a single file of 2 GB"
    ):
        export(checkpoint_of("gpt2"), tmp_path / "out", single_file=True)
    assert list(tmp_path.iterdir()) == []
