"""Bundle folders and txexport.json: errors are reported at load."""

import dataclasses
import json
import os
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, weights_path
from helpers.project import ROOT

import txexport
from txexport import bundle, export, inspect, verify
from txexport.bundle.manifest import FORMAT
from txexport.bundle.proof import ANSWERS
from txexport.checkpoints.checkpoint import sha256
from txexport.cli.main import main
from txexport.errors import BundleError, CheckpointError, InputError, UnsupportedError
from txexport.runtime.vectors.pooling import read_pooling
from txexport.verification import bundle_contents, reports
from txexport.verification.reports.facts import facts_line

FILES = ["manifest and copied files"]


def edited(folder: Path, **values) -> None:
    path = folder / "txexport.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


@pytest.fixture
def copy(bundle_of, tmp_path) -> Path:
    """A bundle as an export leaves it: `bundle_of`'s may have been verified by another test."""
    folder = Path(shutil.copytree(bundle_of("bert"), tmp_path / "bundle"))
    if (folder / ANSWERS).exists():
        (folder / ANSWERS).unlink()
        manifest = json.loads((folder / "txexport.json").read_text())
        (folder / "txexport.json").write_text(json.dumps(manifest | {"proof": None}))
    return folder


@pytest.mark.parametrize("name", [".gitattributes", "README.md", "LICENSE", ".cache/huggingface/x.metadata"])
def test_a_hub_s_own_files_change_nothing(name, copy):
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).write_text("{}")
    assert verify(copy, reference="twin", cases=FILES).ok
    txexport.load(copy, device="cpu")


def test_a_file_that_nothing_reads_is_for_verify_to_name(copy):
    (copy / "notes.json").write_text("{}")
    txexport.load(copy, device="cpu")
    [case] = verify(copy, reference="twin", cases=FILES).failed
    assert "notes.json is in the folder, and no export wrote it" in case.exception


def test_every_file_that_the_runtime_reads_is_known_as_such():
    text = "".join(path.read_text() for path in (ROOT / "txexport/runtime").rglob("*.py"))
    names = set(re.findall(r'"([\w.]+\.(?:json|jinja|npz))"', text)) - {bundle.MANIFEST}
    assert len(names) > 8
    assert [name for name in sorted(names) if not bundle.folder.READ.fullmatch(name)] == []
    assert bundle.folder.READ.fullmatch(f"2_Dense/{bundle.DENSE}")
    assert bundle.folder.READ.fullmatch("language_model/attrs.json")
    assert bundle.folder.READ.fullmatch("language_model/5gram.bin")


def test_a_proof_covers_what_txexport_json_says(copy):
    assert verify(copy, reference="twin", cases="quick").ok
    assert inspect(copy).bundle.changed == []
    edited(copy, limits={"encoder": 20})
    assert inspect(copy).bundle.changed == ["txexport.json"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"data": {"d": {"bytes": "x", "sha256": ""}}}, "bytes is 'x', expected a whole number"),
        ({"companions": 3}, "damaged"),
        ({"limits": {"encoder": "40"}}, "limits is"),
        ({"form": {"cache": ["static"], "opset": 24}}, "cache is"),
        ({"spec": {}}, "damaged"),
        (
            {"spec": {"type": "encoder", "pooler": True}},
            "EncoderSpec: missing fields encoder",
        ),
        ({"spec": {"pooler": True}}, "no type is given; expected encoder or decoder or"),
        ({"formats": {}}, "dtypes are none, expected float32"),
        ({"formats": {"float32": {"native": {}, "hub": {}}}}, "native graphs are none, expected model"),
        ({"form": {"cache": None, "opset": 24, "dtypes": ["int3"]}}, "dtypes are ['int3'], expected some of"),
        ({"form": {"cache": None, "opset": 24, "dtypes": []}}, "dtypes are [], expected some of"),
        ({"form": {"cache": None, "opset": 24, "dtypes": ["int8"]}}, "dtypes are float32, expected int8"),
        ({"limits": {"encoderx": 40}}, "limits are encoderx, expected encoder"),
        ({"task": 5}, "task is 5"),
        ({"format": "3"}, "damaged"),
        ({"form": {"cache": None, "opset": 24, "inline": 1}}, "inline is 1"),
        ({"proof": {"created": 1}}, "damaged"),
        ({"stages": []}, "stages are a list"),
        ({"stages": {"native": []}}, "stages are a dict"),
        ({"stages": {"native": [], "hub": []}}, "native stages are none, expected model"),
        ({"stages": {"native": ["model"], "hub": []}}, "damaged"),
        ({"stages": {"native": {"role": "model"}, "hub": []}}, "damaged"),
        ({"format": 7}, "but format 7 has none"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_wrong_types_in_txexport_json_are_told(values, told, copy):
    edited(copy, **values)
    for read in (txexport.load, inspect):
        with pytest.raises(BundleError, match=re.escape(told)):
            read(copy)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"when": "often"}, "when is 'often', expected 'once' or 'step'"),
        ({"role": "encoder_model"}, "native stages are encoder_model, expected model"),
        ({"inputs": {}}, "stage model has inputs , expected the graph's"),
        ({"inputs": ["input_ids"]}, "inputs is"),
        ({"source": "smell"}, "takes input_ids from 'smell', which no earlier stage has"),
        ({"source": "model.logits"}, "takes input_ids from 'model.logits', which no earlier stage has"),
        ({"facts": {"vocab_size": -1}}, "which do not fit its inputs"),
        ({"facts": {"vocab_size": 40, "least_samples": -1}}, "which do not fit its inputs"),
        ({"facts": {}}, "which do not fit its inputs"),
        ({"facts": {"vocab_size": "40"}}, "vocab_size is '40', expected a whole number"),
        ({"facts": {"vocab_size": True}}, "vocab_size is True, expected a whole number"),
        ({"facts": {"vocabulary": 40}}, "damaged"),
        ({"facts": {"vocab_size": 40, "limit": "decoder"}}, "limit 'decoder', expected one of encoder"),
        ({"facts": {"vocab_size": 40, "pads_to_limit": True}}, "pads to a limit, but has none"),
        ({"facts": {"vocab_size": 40, "vector": "text"}}, "vector 'text', expected an output"),
        ({"instead_of": ["model"]}, "instead of 'model', which is no other stage"),
        ({"speed": 1}, "damaged"),
    ],
    ids=str,
)
def test_a_damaged_stage_is_refused(values, message, copy):
    stages = json.loads((copy / "txexport.json").read_text())["stages"]
    [stage] = stages["native"]
    if "source" in values:
        values = {"inputs": stage["inputs"] | {"input_ids": values["source"]}}
    stage |= values
    edited(copy, stages=stages)
    for read in (txexport.load, inspect):
        with pytest.raises(BundleError, match=re.escape(message)):
            read(copy)


def test_verify_finds_a_stage_of_another_architecture(copy):
    stages = json.loads((copy / "txexport.json").read_text())["stages"]
    stages["native"][0]["facts"]["vocab_size"] += 1
    edited(copy, stages=stages)
    [case] = verify(copy, reference="twin", cases=FILES).failed
    assert "stages of native graphs are not those of the checkpoint's architecture" in case.exception


def test_force_replaces_a_bundle_of_an_older_txexport(copy, checkpoint_of):
    shutil.move(graph_path(copy), copy / "model.onnx")
    shutil.move(weights_path(copy), copy / "weights.safetensors")
    shutil.rmtree(copy / "onnx")
    edited(copy, format=4, graphs={"model": {"file": "model.onnx"}})
    with pytest.raises(BundleError, match=r"is of an older txexport; export again$"):
        txexport.load(copy)
    export(checkpoint_of("bert"), copy, force=True)
    assert txexport.load(copy, device="cpu").manifest.format == FORMAT


def test_force_replaces_a_bundle_of_one_dtype(copy, checkpoint_of):
    edited(copy, format=5, **json.loads((copy / "txexport.json").read_text())["formats"]["float32"])
    with pytest.raises(BundleError, match=r"is of an older txexport; export again$"):
        txexport.load(copy)
    export(checkpoint_of("bert"), copy, force=True)
    assert txexport.load(copy, device="cpu").manifest.format == FORMAT


def test_force_replaces_a_bundle_whose_verification_was_killed(copy, checkpoint_of):
    shutil.copyfile(copy / "txexport.json", copy / "txexport.json.4711")
    assert verify(copy, reference="twin", cases=FILES).ok
    export(checkpoint_of("bert"), copy, force=True)
    assert sorted(path.name for path in copy.parent.iterdir()) == ["bundle"]
    assert not (copy / "txexport.json.4711").exists()


def test_numbers_of_numpy_are_written_as_python_s(checkpoint_of, tmp_path):
    export(checkpoint_of("bert"), tmp_path / "out", opset=np.int64(24))
    assert json.loads((tmp_path / "out" / "txexport.json").read_text())["form"]["opset"] == 24
    assert json.loads(json.dumps(inspect(tmp_path / "out", batch=np.int64(2)).to_dict()))["batch"] == 2


def test_inputs_of_compare_may_be_lists(bundle_of):
    file = graph_path(bundle_of("bert"))
    ids = {"input_ids": [[1, 2]], "attention_mask": [[1, 1]], "token_type_ids": [[0, 0]]}
    report = txexport.compare(file, file, inputs=[ids])
    assert report.ok
    report = txexport.compare(file, file, ranges={"input_ids": [0, 5]}, lengths=np.array([4, 5]))
    assert report.ok


def test_a_pipe_is_refused_and_not_waited_for(copy):
    (copy / "tokenizer_config.json").unlink()
    os.mkfifo(copy / "tokenizer_config.json")
    for read in (txexport.load, inspect, verify):
        with pytest.raises(BundleError, match=r"tokenizer_config.json is neither a file nor a folder"):
            read(copy)


@pytest.mark.parametrize("name", ["onnx/model.onnx", "txexport.json", "tokenizer.json"])
def test_what_changes_while_it_is_verified_is_not_proved(name, copy):
    proof = bundle.read(copy).proof  # of another test, perhaps

    def meanwhile(case: str) -> None:
        if case.startswith("sentences (transformers"):  # the last one
            text = (copy / name).read_bytes()
            (copy / name).write_bytes(text.replace(b'"encoder": 40', b'"encoder": 41') + b"\n")

    with pytest.raises(BundleError, match=r"was changed while it was verified; verify it again$"):
        verify(copy, cases="quick", progress=meanwhile)
    assert bundle.read_manifest(copy).proof == proof


@pytest.mark.parametrize("back", [False, True])
def test_a_checkpoint_that_changes_while_it_is_compared_proves_nothing(back, checkpoint_of, tmp_path):
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    export(source, tmp_path / "out")
    text = (source / "config.json").read_text()

    def meanwhile(case: str) -> None:
        if case.startswith("one token (twin"):
            (source / "config.json").write_text(text + "\n")
        if back and case.startswith("sentences (transformers"):
            (source / "config.json").write_text(text)

    if back:  # it was not read meanwhile
        assert verify(tmp_path / "out", cases="quick", progress=meanwhile).ok
        return
    with pytest.raises(CheckpointError, match=r"is not what was exported: config.json differs"):
        verify(tmp_path / "out", cases="quick", progress=meanwhile)
    assert bundle.read_manifest(tmp_path / "out").proof is None


def test_txexport_json_that_changes_while_it_is_read_is_not_proved(copy, monkeypatch):
    kept, hashes = (copy / "txexport.json").read_text(), bundle.files_sha256(copy)
    edited(copy, limits={"encoder": 7})
    monkeypatch.setattr(bundle, "files_sha256", lambda folder: hashes)
    with pytest.raises(BundleError, match=r"was changed while it was verified; verify it again$"):
        verify(copy, reference="twin", cases=["one token"])
    (copy / "txexport.json").write_text(kept)
    assert verify(copy, reference="twin", cases=["one token"]).ok


@pytest.mark.parametrize("path", [".cache/p", "pool", "a/b", "1_Pooling/x", "../1_Pooling", 5, None])
def test_modules_lie_where_export_copies_them(path, checkpoint_of, tmp_path):
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    modules = [{"type": "sentence_transformers.models.Pooling", "path": path}]
    (source / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(CheckpointError, match="expected a folder within the bundle, as 1_Pooling"):
        export(source, tmp_path / "out")
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(BundleError, match="expected a folder within the bundle, as 1_Pooling"):
        read_pooling(tmp_path)


def test_a_report_replaces_no_file_that_it_is_about(copy, checkpoint_of, tmp_path):
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    before = bundle.files_sha256(copy)
    for file in (copy / "model.json", copy / "deep" / "report.md", source / "config.json"):
        file.parent.mkdir(exist_ok=True)
        with pytest.raises(InputError, match=r"would (be inside a bundle|replace config.json, a file of)"):
            reports.check(file)
    (copy / "deep").rmdir()
    result = CliRunner().invoke(main, ["verify", str(copy), "--json", str(weights_path(copy))])
    assert (result.exit_code, len(result.output.splitlines())) == (2, 1)
    assert bundle.files_sha256(copy) == before


def reused_name(model):
    function = max(model.functions, key=lambda function: len(function.node))
    function.node[0].output[0] = function.input[-1]


def norm_without_shift(model):
    """onnx's checker passes it."""
    calls = (node for function in model.functions for node in function.node if node.op_type == "norm")
    del next(calls).input[-1]


@pytest.mark.parametrize(
    ("change", "why"),
    [(reused_name, "is no valid ONNX"), (norm_without_shift, "calls norm without all of its inputs")],
)
def test_a_graph_that_is_not_valid_is_not_opened(change, why, copy, monkeypatch):
    """Some of them crash ONNX Runtime."""
    model = onnx.load(graph_path(copy), load_external_data=False)
    change(model)
    onnx.save(model, graph_path(copy))
    relisted = json.loads((copy / "txexport.json").read_text())
    relisted["formats"]["float32"]["native"]["model"]["sha256"] = sha256(graph_path(copy))
    edited(copy, **relisted)
    real = onnxruntime.InferenceSession

    def opened(path, *arguments, **options):
        assert Path(path) != graph_path(copy), "it was opened"
        return real(path, *arguments, **options)

    monkeypatch.setattr("onnxruntime.InferenceSession", opened)
    report = verify(copy, reference="twin", cases="quick")
    assert any(why in (case.exception or "") for case in report.failed)
    assert any("is not the exported graph" in (case.exception or "") for case in report.failed)


def test_a_tokenizer_with_two_words_of_one_id_is_refused(checkpoint_of, tmp_path):
    """The tokenizers library returns either, depending on the process."""
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    first, second = list(tokenizer["model"]["vocab"])[-2:]
    tokenizer["model"]["vocab"][first] = number = tokenizer["model"]["vocab"][second]
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(CheckpointError, match=f"two tokens with the id {number}, '{first}' and '{second}'"):
        export(source, tmp_path / "out")


def test_an_empty_source_is_no_default(copy):
    with pytest.raises(InputError, match="source is empty, expected a path"):
        verify(copy, source="", reference="twin", cases="quick")


def test_a_made_tokenizer_is_compared_with_its_types(bundle_of):
    """100 is 100.0 in Python, and the library refuses such a tokenizer."""
    manifest = bundle.read(bundle_of("bert"))
    older = dataclasses.replace(manifest, versions=manifest.versions | {"tokenizers": "0.20.0"})
    assert bundle_contents._same("tokenizer.json", b'{"a": 1, "b": true}', b'{"a":1,"b":true}', older)
    for text in (b'{"a": 1.0, "b": true}', b'{"a": 1, "b": 1}', b'{"b": true, "a": 1}'):
        assert not bundle_contents._same("tokenizer.json", text, b'{"a":1,"b":true}', older)


def test_a_tokenizer_that_cannot_be_read_is_no_skipped_case(checkpoint_of, tmp_path):
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    (source / "tokenizer.json").write_text('{"version": 1.0}')
    export(source, tmp_path / "out")
    for failed in verify(tmp_path / "out", reference="twin", cases="quick").failed:
        assert failed.name in ("sentences", "tokenizer")
        assert "tokenizer.json cannot be read" in failed.exception
    (tmp_path / "lines.txt").write_text("yes")
    with pytest.raises(BundleError, match=r"tokenizer.json cannot be read"):
        verify(tmp_path / "out", cases="quick", texts=tmp_path / "lines.txt")


def test_cases_by_name_say_that_files_were_not_compared(copy):
    report = verify(copy, reference="twin", cases=["one token"])
    assert "(only 1 by name; graphs, weights and files were not compared), of " in report.scope
    some = verify(copy, reference="twin", cases=["one token", *FILES])
    assert "(only 2 by name; graphs and weights were not compared), of " in some.scope
    whole = verify(copy, reference="twin", cases=["exported graphs", "every weight", *FILES])
    assert "(only 3 by name), of " in whole.scope


def test_checks_without_numbers_count_none(copy):
    report = verify(copy, reference="twin", cases=FILES)
    assert facts_line(report).endswith("no numbers compared")


def test_a_checkpoint_with_an_adapter_is_refused(checkpoint_of, tmp_path):
    source = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    (source / "adapter_config.json").write_text("{}")
    with pytest.raises(UnsupportedError, match=r"has an adapter_config.json; merge the adapter"):
        export(source, tmp_path / "out")
