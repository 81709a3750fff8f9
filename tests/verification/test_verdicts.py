"""What a verdict says, and no more: equal to whom, exact or in budget, by cases alone, or not proved."""

import dataclasses
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
import tiny_adapter
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, relist
from helpers.reports import SCHEMA, valid
from safetensors.numpy import load_file, save_file

import txexport
from txexport import bundle
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.errors import CheckpointError
from txexport.exporter import export
from txexport.verification import CaseReport, Report, TensorCheck, compare, reports, verify
from txexport.verification.checks import CHECKPOINT, FORMAT_LOSS
from txexport.verification.reports import markdown
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import graph_results

FEW = ["one token", "three ragged rows, right padding"]

# A file of a checkpoint that moves an answer, and what is in it.
BESIDE = {
    "generation_config.json": '{"no_repeat_ngram_size": 3, "repetition_penalty": 1.5}',
    "chat_template.jinja": "{{ messages[0].content }}",
    "special_tokens_map.json": '{"bos_token": "<x>"}',
    "preprocessor_config.json": '{"image_mean": [0.1, 0.2, 0.3]}',
    "sentence_bert_config.json": '{"max_seq_length": 7, "do_lower_case": true}',
    "1_Pooling/config.json": '{"pooling_mode_cls_token": true}',
    "additional_chat_templates/tool.jinja": "{{ messages[0].content }}",
    "vocab.txt": "a\nb",
}


@pytest.fixture
def source(checkpoint_of, tmp_path) -> Path:
    """A checkpoint of one's own, with a file of every kind beside its weights."""
    folder = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "checkpoint"))
    for name in BESIDE:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("{}" if name.endswith("json") else "x")
    return folder


@pytest.mark.parametrize("name", [*BESIDE, "config.json"])
def test_a_file_that_is_edited_alike_in_both_is_not_what_was_exported(name, source, tmp_path):
    """Even where txexport.json lists the bundle's as it is now."""
    out = tmp_path / "out"
    export(source, out, only="native")
    for folder in (source, out):
        content = BESIDE.get(name) or json.dumps(json.loads((folder / name).read_text()) | {"x": 1})
        (folder / name).write_text(content)
    relist(out)
    with pytest.raises(CheckpointError, match=rf"is not what was exported: {re.escape(name)} differs"):
        verify(out, cases=FEW)


@pytest.mark.parametrize("act", ["added", "removed"])
def test_a_file_that_comes_or_goes_in_both_is_not_what_was_exported(act, source, tmp_path):
    out, name = tmp_path / "out", "generation_config.json"
    if act == "added":
        (source / name).unlink()
    export(source, out, only="native")
    for folder in (source, out):
        (folder / name).write_text(BESIDE[name]) if act == "added" else (folder / name).unlink()
    relist(out)
    with pytest.raises(CheckpointError, match=r"is not what was exported: generation_config\.json differs"):
        verify(out, cases=FEW)


def test_weights_that_are_never_copied_are_listed_too(source):
    """Those of a dense layer over sentence vectors, and the settings of ColBERT."""
    dense = source / "2_Dense"
    dense.mkdir()
    (dense / "config.json").write_text("{}")
    save_file({"linear.weight": np.ones((2, 2), np.float32)}, dense / "model.safetensors")
    (source / "artifact.metadata").write_text("{}")
    before = Checkpoint(source).hashes()
    save_file({"linear.weight": np.zeros((2, 2), np.float32)}, dense / "model.safetensors")
    (source / "artifact.metadata").write_text('{"doc_maxlen": 3}')
    after = Checkpoint(source).hashes()
    assert {name for name in after if before.get(name) != after[name]} == {
        "2_Dense/model.safetensors",
        "artifact.metadata",
    }


def test_an_older_bundle_is_held_to_what_it_recorded(source, tmp_path):
    out = tmp_path / "out"
    export(source, out, only="native")
    manifest = bundle.read_manifest(out)
    listed = {name: manifest.source.sha256[name] for name in ("config.json", "model.safetensors")}
    older = dataclasses.replace(manifest.source, sha256=listed)
    dataclasses.replace(manifest, source=older).write(out / bundle.MANIFEST)
    report = verify(out, cases="quick")
    assert report.ok
    [note] = report.notes
    assert note.startswith("this export recorded config.json and weights alone")
    assert note in facts_line(report)


def test_the_verdict_names_the_checkpoint(checkpoint_of, tmp_path):
    """A bundle of somebody else's looks as good, and is of another digest."""
    mine = Path(shutil.copytree(checkpoint_of("bert"), tmp_path / "mine"))
    theirs = Path(shutil.copytree(mine, tmp_path / "theirs"))
    tensors = {name: array.copy() for name, array in load_file(mine / "model.safetensors").items()}
    next(iter(tensors.values()))[0] += 1
    save_file(tensors, theirs / "model.safetensors", {"format": "pt"})
    digests = []
    for source in (mine, theirs):
        out = tmp_path / f"{source.name}-out"
        manifest = export(source, out, only="native")
        report = verify(out, cases="quick")
        digests.append(manifest.source.digest)
        assert report.ok
        assert report.scope.endswith(f", of {source.name} ({manifest.source.digest})")
        assert bundle.read_manifest(out).proof.scope == report.scope
        assert str(tmp_path) not in report.scope  # proofs are published
    assert len({*digests}) == 2


def test_the_verdict_names_the_adapter(checkpoint_of, tmp_path):
    base = checkpoint_of("bert")
    adapter = tiny_adapter.write(
        tmp_path / "mine", tiny_adapter.lora(base, "query"), target_modules=["query"]
    )
    export(base, tmp_path / "out", adapter=adapter, only="native")
    report = verify(tmp_path / "out", cases="quick")
    assert f"of {base.name} with adapter mine (" in report.scope


def edited(folder: Path) -> Path:
    """A bundle whose graph has one more node, which changes nothing."""
    path = graph_path(folder)
    model = onnx.load(path, load_external_data=False)
    [output] = [one for one in model.graph.output if one.name == "last_hidden_state"] or model.graph.output[
        :1
    ]
    for node in model.graph.node:
        for names in (node.input, node.output):
            names[:] = ["before" if name == output.name else name for name in names]
    model.graph.node.append(onnx.helper.make_node("Identity", ["before"], [output.name]))
    onnx.save(model, path)
    return folder


def test_graphs_that_are_not_the_exported_ones_are_never_equal(checkpoint_of, tmp_path):
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out, only="native")
    edited(out)
    assert verify(out, cases="quick").verdict == "NOT EQUAL"
    report = verify(out, cases="quick", allow_edited=True)
    tried = [case for case in report.cases if case.checks and case.reference != CHECKPOINT]
    assert (report.ok, report.exit_code) == (True, 0)
    assert report.verdict == f"no difference in {len(tried)} cases"
    assert {words.partition(",")[0] for words in graph_results(report).values()} == {"no difference"}
    assert bundle.read_manifest(out).proof.verdict == report.verdict
    assert report.scope.startswith("beside twin and transformers on onnxruntime cpu (quick cases)")
    valid(report.to_dict(), SCHEMA)


def test_a_comparison_is_never_equal(bundle_of):
    out = bundle_of("bert")
    graph = graph_path(out)
    for a, b in ((out, out), (graph, graph)):
        report = compare(a, b)
        tried = sum(bool(case.checks) and case.name != "inputs and outputs" for case in report.cases)
        assert report.verdict == f"no difference in {tried} case{'s' * (tried != 1)}"
        assert (report.ok, report.exit_code) == (True, 0)
        valid(report.to_dict(), SCHEMA)


@pytest.fixture(scope="module")
def lossy(checkpoint_of, tmp_path_factory) -> Path:
    """Rows of one huge number among small ones: int8 is right to the digit, and loses nearly all."""
    folder = tmp_path_factory.mktemp("lossy")
    source = Path(shutil.copytree(checkpoint_of("bert"), folder / "source"))
    tensors = {name: array.copy() for name, array in load_file(source / "model.safetensors").items()}
    for name, array in tensors.items():
        if name.endswith(("query.weight", "intermediate.dense.weight", "attention.output.dense.weight")):
            array[:, 0] *= 1000
    save_file(tensors, source / "model.safetensors", {"format": "pt"})
    export(source, folder / "out", dtype=["float32", "int4"], only="native")
    return folder / "out"


def test_a_format_that_loses_too_much_is_exact(lossy, tmp_path):
    """A verdict, an exit code and a kind of failure of its own."""
    files = {form: tmp_path / f"report{form}" for form in reports.FORMS}
    words = ["verify", str(lossy), "--cases", "quick", "--reference", "twin", "--quiet"]
    words += ["--budget", "direction=0.001"]
    for file in files.values():
        words += ["--report", str(file)]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 3, result.output
    assert "exact, but loses too much beside twin" in result.output
    assert re.search(
        r"native int4 loses [\d.]+% of \w+: direction, more than the budget of 0.10%", result.output
    )
    values = json.loads(files[".json"].read_text())
    assert (values["ok"], values["exact"], values["verdict"]) == (False, True, "exact, but loses too much")
    valid(values, SCHEMA)
    report = Report.from_dict(values)
    assert report.exit_code == 3
    assert graph_results(report)["onnx/model_native.onnx"].startswith("equal, ")
    assert graph_results(report)["onnx/model_native_q4.onnx"].startswith("exact, but loses too much, ")
    suites = ElementTree.parse(files[".xml"]).getroot()
    assert {one.attrib["type"] for one in suites.iter("failure")} == {"LosesTooMuch"}
    assert files[".md"].read_text().startswith(f"### {markdown.ICONS[3]} ")
    assert "exact, but loses too much" in files[".html"].read_text()
    assert bundle.read_manifest(lossy).proof.verdict == "exact, but loses too much"


def test_a_wrong_number_is_no_loss(lossy, tmp_path):
    """Within no budget of one's own: one integer that is another."""
    copy = Path(shutil.copytree(lossy, tmp_path / "copy"))
    path = next(copy / name for name in bundle.read_manifest(copy).data if "q4" in name)
    content = bytearray(path.read_bytes())
    content[-3] ^= 64
    path.write_bytes(content)
    report = verify(copy, source=lossy.parent / "source", cases="quick", budget={"direction": 0.001})
    assert (report.verdict, report.exact, report.exit_code) == ("NOT EQUAL", False, 1)


def test_losses_alone_prove_nothing_exact(lossy):
    report = verify(lossy, cases=FEW, budget={"direction": 0.001})
    assert report.verdict == "exact, but loses too much"
    cases = [case for case in report.cases if case.name == FORMAT_LOSS]
    alone = dataclasses.replace(report, cases=cases)
    assert (alone.verdict, alone.exact, alone.exit_code) == ("loses too much", False, 3)
    raised = CaseReport(FORMAT_LOSS, "twin", exception="EngineError: it ended", graphs="native int8")
    assert dataclasses.replace(report, cases=[*report.cases, raised]).verdict == "NOT EQUAL"


def test_the_worst_verdict_is_that_of_several():
    right = CaseReport("c", "twin", [TensorCheck("y", 3, 0.0, 1e-5)])
    wrong = CaseReport("c", "twin", [TensorCheck("y", 3, 1.0, 1e-5)])
    much = CaseReport(FORMAT_LOSS, "twin", [TensorCheck("y: direction", 3, 0.5, 0.1)], graphs="native int8")
    made = [
        Report("b", "bert", "feature-extraction", "r", {}, cases)
        for cases in ([right], [right, much], [wrong])
    ]
    assert [report.exit_code for report in made] == [0, 3, 1]
    for several, verdict in (
        (made[:1], "equal"),
        (made[:2], "exact, but loses too much"),
        (made, "NOT EQUAL"),
    ):
        assert f"{len(several)} bundles: {verdict}" in reports.FORMS[".html"](several) or len(several) == 1


def test_the_fixture_of_pytest_says_which(lossy):
    from txexport import pytest_plugin

    report = verify(lossy, cases=FEW, budget={"direction": 0.001})
    message = pytest_plugin._message(report)
    assert message.splitlines()[0].startswith(f"{lossy} is exact, but loses too much beside twin")


def test_a_process_that_exports_again_is_at_liberty(source, tmp_path):
    """An edited checkpoint is another one, and its own bundle is proved."""
    out = tmp_path / "out"
    first = txexport.export(source, out, only="native").source.digest
    (source / "generation_config.json").write_text(BESIDE["generation_config.json"])
    second = txexport.export(source, out, only="native", force=True).source.digest
    assert first != second
    assert verify(out, cases=FEW).ok
