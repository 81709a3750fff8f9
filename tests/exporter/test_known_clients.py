"""Export's statements on clients are their test results, and every family was tested."""

import json
import runpy
from dataclasses import replace

import pytest
from click.testing import CliRunner
from documentation.tables import shown
from helpers.project import ROOT
from helpers.rows import ROWS

from txexport import bundle, export
from txexport.cli.main import main
from txexport.exporter import known_clients

TOOL = runpy.run_path(str(ROOT / "tools/clients/results.py"))
FOUND = json.loads(TOOL["FAMILIES"].read_text(encoding="utf-8"))


def test_table_of_families_is_what_was_families():
    assert shown("client_families") == TOOL["families_table"](FOUND)
    kept = json.loads(TOOL["READ"].read_text(encoding="utf-8"))
    assert kept == {"versions": FOUND["versions"], "families": TOOL["clients_by_task"](FOUND)}


def test_every_family_was_tried_with_every_client():
    assert {row.model_type for row in ROWS} == FOUND["families"].keys()
    for tasks in FOUND["families"].values():
        assert all(whys.keys() == known_clients.NAMES.keys() for whys in tasks.values())


@pytest.mark.parametrize(
    ("family", "words"),
    [
        ("bert", "for other clients onnx/model.onnx (OpenVINO, optimum, transformers.js)"),
        ("gpt2", "onnx/model.onnx (onnxruntime-genai, OpenVINO, optimum, transformers.js)"),
        ("qwen3", "onnx/model.onnx (onnxruntime-genai, OpenVINO, transformers.js)"),
        ("longformer", "onnx/model.onnx (ONNX Runtime only: no tested client runs this model)"),
    ],
)
def test_export_names_the_clients_that_run_the_model(family, words, checkpoint_of, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(main, ["export", str(checkpoint_of(family)), str(out), "--only", "hub"])
    assert result.stdout.endswith(f"{words}\n")


def test_optimum_runs_no_ctc_head_with_a_mask(checkpoint_of, tmp_path):
    """Its ORTModelForCTC gives input_values alone."""
    clients = {}
    for row in ROWS:
        if row.architecture == "Wav2Vec2ForCTC" and row.variant in ("", "layer norm, masked"):
            export(checkpoint_of(row), tmp_path / str(len(clients)), only="hub")
            clients[row.variant] = known_clients.running(bundle.read(tmp_path / str(len(clients))))
    assert clients == {
        "": ["OpenVINO", "optimum", "transformers.js"],
        "layer norm, masked": ["OpenVINO", "transformers.js"],
    }


def test_a_layout_for_one_client_is_for_that_one(bundle_of):
    manifest = bundle.read(bundle_of("gpt2"))
    expected = {"triton": ["Triton"], "openvino": ["OpenVINO"], "web": [*known_clients.NAMES.values()]}
    for client, names in expected.items():
        asked = replace(manifest, form=replace(manifest.form, client=client))
        assert known_clients.running(asked) == names
    assert known_clients.running(replace(manifest, task="not-tried")) is None
    assert known_clients.tested_clients(replace(manifest, task="not-tried")) == ""
    native = replace(manifest, formats={"float32": replace(manifest.formats["float32"], hub={})})
    assert known_clients.running(native) == []
