"""verify is worth nothing unless it fails when the bundle is wrong: these tests break bundles on purpose."""

import dataclasses
import json
import math
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, tamper, weight_names
from helpers.graph_edits import constant, function, set_constant
from onnx import helper, numpy_helper

from txexport import bundle
from txexport.cli.main import main
from txexport.contracts import roles
from txexport.errors import CheckpointError, InputError
from txexport.exporter import export
from txexport.families import bert
from txexport.verification import CaseReport, Report, TensorCheck, verify
from txexport.verification.checks import HUB, NATIVE, check_of
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import graph_results


@pytest.fixture
def copy_of(bundle_of, tmp_path):
    """A function from a model_type and a cache to a bundle of its own, to be broken."""

    def get(model_type: str, cache: str | None = None) -> Path:
        folder = tmp_path / "bundle"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(bundle_of(model_type, cache), folder)
        return folder

    return get


def without_effect(model_type: str, name: str) -> bool:
    """A key bias shifts all scores of a query alike, which softmax ignores; only a cache shows it."""
    return name.endswith("attention.k.bias") and (model_type == "bert" or name.startswith("encoder."))


FEW = {
    "bert": ["three ragged rows, right padding", "three rows, scattered padding"],
    "gpt2": ["one token, then steps", "three ragged rows in chunks"],
    "bart": ["one token, then steps", "three ragged rows in chunks"],
}


@pytest.mark.parametrize("model_type", ["bert", "gpt2", pytest.param("bart", marks=pytest.mark.slow)])
def test_every_dropped_weight_is_caught(model_type, copy_of, bundle_of):
    names = weight_names(bundle_of(model_type))
    assert len(names) > 30
    missed = []
    for name in names:
        folder = copy_of(model_type)
        tamper(folder, name, lambda numbers: 0 * numbers)
        report = verify(folder, reference="twin", cases=["every weight", *FEW[model_type]])
        assert report.failed[0].name == "every weight"
        if not [case for case in report.failed if case.reference == "twin"]:
            missed.append(name)
    assert [name for name in missed if not without_effect(model_type, name)] == []


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "bart"])
def test_one_changed_number_is_caught(model_type, copy_of):
    def change(numbers):
        numbers.flat[numbers.size // 2] += 0.1
        return numbers

    folder = copy_of(model_type)
    name = next(n for n in weight_names(folder) if n.endswith("layers.1.feed_forward.up.weight"))
    tamper(folder, name, change)
    report = verify(folder)
    assert {case.reference for case in report.failed} == {"checkpoint", "twin", "transformers"}


def test_unchanged_bundle_is_equal(copy_of):
    assert verify(copy_of("bert")).ok


def test_row_of_a_table_that_no_case_reads_is_caught(copy_of):
    """Cases of tokens read few of a real vocabulary's words: the weights themselves are compared too."""

    def change(numbers):
        numbers[7] *= -1
        return numbers

    folder = copy_of("bert")
    tamper(folder, "encoder.embedding.word.weight", change)
    assert verify(folder).failed[0].name == "every weight"


def test_weight_of_a_graph_s_own_is_caught(copy_of):
    """The true matrix still in place, but another one read."""
    folder = copy_of("bert")
    model = onnx.load(graph_path(folder), load_external_data=False)
    words = np.ones((311, 48), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(words, "other"))
    onnx.save(model, graph_path(folder))
    case = verify(folder, reference="twin", allow_edited=True).failed[0]
    assert case.exception == f"{graph_path(folder).name} holds weights of its own: other"


def test_window_longer_than_usual_is_still_crossed(tmp_path):
    tiny_checkpoint.save(tmp_path / "ck", "mistral", sliding_window=300, max_position_embeddings=800)
    export(tmp_path / "ck", tmp_path / "out")
    assert verify(tmp_path / "out", reference="transformers").ok
    model = onnx.load(graph_path(tmp_path / "out"), load_external_data=False)
    set_constant(constant(function(model, "cache_mask"), 300), 280)
    onnx.save(model, graph_path(tmp_path / "out"))
    failed = verify(tmp_path / "out", allow_edited=True).failed
    assert {case.reference for case in failed} == {"twin", "transformers"}


def test_lost_output_is_caught(copy_of):
    folder = copy_of("bert")
    model = onnx.load(graph_path(folder), load_external_data=False)
    del model.graph.output[1]
    onnx.save(model, graph_path(folder))
    manifest = json.loads((folder / "txexport.json").read_text())
    del manifest["formats"]["float32"]["native"][roles.MODEL]["outputs"][1]
    (folder / "txexport.json").write_text(json.dumps(manifest))
    report = verify(folder, reference="twin")
    run = [case for case in report.failed if case.reference == "twin"]
    assert run
    assert {case.exception for case in run} == {"the graph has no output pooler_output"}


DATA = roles.data_path(roles.hub_path(roles.MODEL))
MANIFESTS = [
    ({"model_type": "gpt2"}, "model_type or task is not that of the checkpoint"),
    ({"limits": {"encoder": 7}}, "limits are {'encoder': 7}, expected {'encoder': 40}"),
    ({"data": {DATA: {"bytes": 7, "sha256": "0"}}}, f"{DATA} is not the file that was exported"),
    ({"data": {"config.json": {"bytes": 7, "sha256": "0"}}}, f"data are config.json, expected {DATA}"),
]


@pytest.mark.parametrize(("change", "said"), MANIFESTS, ids=[row[1] for row in MANIFESTS])
def test_manifest_that_says_something_else_is_caught(change, said, copy_of):
    folder = copy_of("bert")
    manifest = json.loads((folder / "txexport.json").read_text())
    (folder / "txexport.json").write_text(json.dumps(manifest | change))
    report = verify(folder, reference="twin", cases=["manifest and copied files"])
    assert said in report.failed[0].exception


def test_opset_that_is_not_the_graphs_is_caught(copy_of):
    folder = copy_of("bert")
    manifest = json.loads((folder / "txexport.json").read_text())
    manifest["form"]["opset"] = 17
    (folder / "txexport.json").write_text(json.dumps(manifest))
    files = " and ".join(graph.file for graph in bundle.read(folder).every_graph)
    [case] = verify(folder, reference="twin", cases=["exported graphs"]).failed
    assert case.exception.startswith(f"{files} are not the exported graphs: first difference")


COMPANIONS = {"tokenizer.json": "checkpoint's", "config.json": "file that export makes of the checkpoint"}


@pytest.mark.parametrize("name", COMPANIONS)
def test_changed_companion_is_caught(name, copy_of):
    folder = copy_of("bert")
    (folder / name).write_text((folder / name).read_text() + " ")
    [case] = verify(folder, reference="twin").failed
    assert case.exception == f"{name} is not the {COMPANIONS[name]}"


def test_error_in_a_family_s_table_is_caught_by_the_original(checkpoint_of, tmp_path, monkeypatch):
    """Our twin is filled through the same table, so it alone would call this equal."""
    table = bert.table

    def swapped(spec):
        rules = dict(table(spec).rules)
        q, v = f"{bert.LAYER}.attention.q.*", f"{bert.LAYER}.attention.v.*"
        rules[q], rules[v] = rules[v], rules[q]
        return dataclasses.replace(table(spec), rules=rules)

    monkeypatch.setattr(bert, "table", swapped)
    export(checkpoint_of("bert"), tmp_path / "out")
    assert {case.reference for case in verify(tmp_path / "out").failed} == {"transformers"}


def test_without_transformers_the_report_says_so(bundle_of, monkeypatch):
    monkeypatch.setattr("txexport.verification.references.selection.find_spec", lambda name: None)
    report = verify(bundle_of("bert"))
    assert report.ok
    assert report.references == ["checkpoint", "twin"]
    assert report.cases[-1] == CaseReport(
        "all cases", "transformers", skipped="transformers is not installed"
    )


def test_reference_that_cannot_be_made_is_no_failure_of_the_bundle(checkpoint_of, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of("bert"), source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | {"pad_token_id": 99_999}))
    export(source, tmp_path / "out")
    code, output = invoke("verify", tmp_path / "out")
    assert code == 2
    assert "error: reference 'transformers' could not be created from" in output
    assert output.count("\n") == 1


def test_report_that_cannot_be_written_is_said_before_the_work(bundle_of, tmp_path):
    (tmp_path / "file").touch()
    report = tmp_path / "file" / "report.json"
    code, output = invoke("verify", bundle_of("bert"), "--json", report)
    assert code == 2
    assert output == f"error: {tmp_path / 'file'} is not a folder, so {report} cannot be written\n"


def test_changed_source_cannot_be_tried(bundle_of, checkpoint_of):
    with pytest.raises(
        CheckpointError, match=r"is not what was exported: config\.json, .*model\.safetensors.* differs"
    ):
        verify(bundle_of("bert"), source=checkpoint_of("gpt2"))


def test_unknown_reference_lists_the_known(bundle_of):
    with pytest.raises(InputError, match="expected one of twin, transformers, float64, torch"):
        verify(bundle_of("bert"), reference="tensorflow")


def invoke(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


def test_exit_codes(copy_of, tmp_path):
    folder = copy_of("gpt2")
    code, output = invoke("verify", folder, "--json", tmp_path / "report.json")
    assert code == 0
    assert "equal to twin and transformers" in " ".join(output.split())
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"] is True
    assert {case["ok"] for case in report["cases"]} == {True}
    assert all(check["error"] <= check["tolerance"] for case in report["cases"] for check in case["checks"])
    tamper(folder, "decoder.layers.1.attention.q.weight", lambda numbers: numbers + 0.01)
    code, output = invoke("verify", folder, "--json", tmp_path / "report.json")
    assert code == 1
    assert "NOT EQUAL" in output
    assert json.loads((tmp_path / "report.json").read_text())["ok"] is False
    manifest = json.loads((folder / "txexport.json").read_text())
    manifest["source"]["path"] = str(tmp_path / "gone")
    (folder / "txexport.json").write_text(json.dumps(manifest))
    code, output = invoke("verify", folder)
    assert code == 2
    assert output.startswith(
        f"error: the checkpoint of {folder} is missing: '{tmp_path / 'gone'}'; give the exported one"
    )
    assert "--source" in output
    assert output.count("\n") == 1


def test_graph_that_raises_is_a_failure_and_not_a_skip(copy_of):
    folder = copy_of("bert")
    manifest = bundle.read(folder)
    model = onnx.load(graph_path(folder), load_external_data=False)
    model.graph.input[0].name = "ids"
    for found in model.graph.node:
        for i, name in enumerate(found.input):
            if name == "input_ids":
                found.input[i] = "ids"
    onnx.save(model, graph_path(folder))
    report = verify(folder)
    run = [case for case in report.cases if case.reference == "twin"]
    assert len(run) == len(verify_names(manifest))
    assert all("unknown input_ids; missing ids" in case.exception for case in run)
    named = f"inputs of {manifest.native[roles.MODEL].file} are not those of the graph"
    assert report.cases[2].exception == f"txexport.json: {named}"
    assert [case for case in report.failed if case.graphs == HUB] == []


def verify_names(manifest: bundle.Manifest) -> list[str]:
    from txexport.parts.cases import encoder_cases

    return [*(case.name for case in encoder_cases(311, 2, manifest.limits["encoder"] or 0)), "sentences"]


def test_report_is_equal_only_if_something_was_compared():
    def report(*cases: CaseReport) -> Report:
        return Report("b", "bert", "t", "cpu", {}, list(cases))

    good = CaseReport("good", "twin", [TensorCheck("y", 3, 1e-6, 1e-5)])
    assert report(good).ok
    assert report(good, CaseReport("other", "twin", skipped="why")).ok
    assert not report().ok
    assert not report(CaseReport("other", "twin", skipped="why")).ok
    assert not report(good, CaseReport("empty", "twin")).ok
    assert not report(good, CaseReport("raised", "twin", exception="E")).ok
    assert not report(good, CaseReport("nothing compared", "twin", [TensorCheck("y", 0, 0.0, 1e-5)])).ok


def test_comparison_is_of_every_number():
    one = np.ones((2, 3), np.float32)
    assert check_of("y", [(one, one)], 1e-5) == TensorCheck("y", 6, 0.0, 1e-5)
    assert check_of("y", [(one + 2e-5, one)], 1e-5).ok is False
    assert check_of("y", [(1000 * one + 2e-3, 1000 * one)], 1e-5).ok
    for wrong in (np.nan, np.inf):
        changed = one.copy()
        changed[1, 2] = wrong
        assert check_of("y", [(changed, one)], 1e-5).error == math.inf
        assert check_of("y", [(one, changed)], 1e-5).error == math.inf
    assert check_of("y", [(one[:1], one)], 1e-5).error == math.inf


def test_the_original_of_a_half_precision_checkpoint_computes_in_float32(tmp_path):
    """Marian's sinusoids are not in its files: where the library loads it as float16, it rounds them."""
    tiny_checkpoint.build("marian").half().save_pretrained(tmp_path / "checkpoint")
    export(tmp_path / "checkpoint", tmp_path / "out")
    report = verify(tmp_path / "out", reference="transformers", cases="quick")
    assert report.ok, report.failed


def test_outputs_have_the_shapes_that_are_declared(copy_of):
    folder = copy_of("dinov2")
    model = onnx.load(graph_path(folder), load_external_data=False)
    declared = model.graph.output[0].type.tensor_type.shape.dim[1]
    assert declared.dim_param == "sequence_length"
    declared.dim_value = 26  # of images of the table's own size
    onnx.save(model, graph_path(folder))
    manifest = json.loads((folder / "txexport.json").read_text())
    manifest["formats"]["float32"]["native"][roles.MODEL]["outputs"][0]["shape"][1] = 26
    (folder / "txexport.json").write_text(json.dumps(manifest))
    report = verify(
        folder, reference="twin", cases=["one", "two of 3 by 2 patches", "manifest and copied files"]
    )
    assert [case.name for case in report.failed] == ["two of 3 by 2 patches"]
    assert "last_hidden_state is (2, 7, 48), declared (batch_size, 26, 48)" in report.failed[0].exception


def graphs_in(folder: Path) -> set[str]:
    """The ONNX files of a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*.onnx")}


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "t5", "clip"])
def test_graphs_of_both_kinds_are_tried(model_type, bundle_of):
    folder = bundle_of(model_type)
    report = verify(folder, cases="quick")
    assert report.ok, facts_line(report)
    found = graph_results(report)
    assert {*found} == graphs_in(folder)
    assert [words for words in found.values() if not words.startswith("equal, ")] == []
    tried = {(case.graphs, case.reference) for case in report.cases if case.runtime and case.checks}
    assert tried == {(NATIVE, "twin"), (NATIVE, "transformers"), (HUB, "transformers")}


ASKED = [
    ({"only": "hub"}, HUB),
    ({"only": "native"}, NATIVE),
    ({"single_file": True}, HUB),
    ({"client": roles.CUDA}, NATIVE),
    *(({"client": client}, HUB) for client in roles.CLIENTS if client not in (roles.GENAI, roles.CUDA)),
]


@pytest.fixture(scope="module")
def asked_for(checkpoint_of, tmp_path_factory):
    """A function from a model_type and options of export to a bundle, which no test may change."""
    made: dict[str, Path] = {}

    def get(model_type: str, options: dict) -> Path:
        key = f"{model_type} {options}"
        if key not in made:
            made[key] = tmp_path_factory.mktemp("asked") / "out"
            export(checkpoint_of(model_type), made[key], **options)
        return made[key]

    return get


@pytest.mark.parametrize("reference", ["twin", "transformers"])
@pytest.mark.parametrize("model_type", ["speech_to_text", "speech-encoder-decoder", "moonshine"])
def test_one_merged_decoder_of_sounds_is_equal(model_type, reference, checkpoint_of, tmp_path):
    export(checkpoint_of(model_type), tmp_path / "out", client="web")
    report = verify(tmp_path / "out", cases="quick", reference=reference)
    assert report.ok, facts_line(report)


@pytest.mark.parametrize("model_type", ["gpt2", "t5", "clip"])
@pytest.mark.parametrize(("options", "kind"), ASKED, ids=[str(row[0]) for row in ASKED])
def test_bundle_for_whom_it_was_asked_is_equal(model_type, options, kind, asked_for):
    folder = asked_for(model_type, options)
    report = verify(folder, cases="quick")
    assert report.ok, facts_line(report)
    found = graph_results(report)
    assert {*found} == graphs_in(folder)
    assert [words for words in found.values() if not words.startswith("equal, ")] == []
    assert {*report.graphs.values()} == {kind}
    assert "transformers" in report.references


@pytest.mark.parametrize("model_type", ["gpt2", "t5", "clip"])
@pytest.mark.parametrize(("options", "kind"), ASKED, ids=[str(row[0]) for row in ASKED])
def test_last_byte_of_each_file_of_weights_counts(model_type, options, kind, asked_for, tmp_path):
    """Of a single file, the last of its last weight."""
    folder = shutil.copytree(asked_for(model_type, options), tmp_path / "bundle")
    manifest = bundle.read(folder)
    files = [*manifest.data] or [graph.file for graph in manifest.every_graph]
    for file in files:
        good = (folder / file).read_bytes()
        if manifest.data:
            (folder / file).write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        else:
            model = onnx.load(folder / file)
            weight = next(t for t in reversed(model.graph.initializer) if t.data_type == t.FLOAT)
            weight.raw_data = weight.raw_data[:-1] + bytes([weight.raw_data[-1] ^ 1])
            onnx.save(model, folder / file)
        [case] = verify(folder, reference="twin", cases=["every weight"]).failed
        assert case.name == "every weight"
        (folder / file).write_bytes(good)
    assert verify(folder, reference="twin", cases=["every weight"]).ok


@pytest.mark.parametrize("cached", [True, False])
def test_merged_decoder_that_ignores_the_encoder_s_mask_is_caught(cached, copy_of):
    """In steps that have a past, or in the one before; the other graphs are right, and so are ours."""
    folder = copy_of("t5")
    path = folder / bundle.read(folder).hub[roles.DECODER_MERGED].file
    model = onnx.load(path, load_external_data=False)
    body, mask, readers = model.graph, "encoder_attention_mask", 0
    for found in body.node:
        readers += mask in found.input
        found.input[:] = ["all_real" if name == mask else name for name in found.input]
    assert readers
    body.node.insert(0, helper.make_node("Equal", [mask, mask], ["same"]))
    body.node.insert(1, helper.make_node("Cast", ["same"], ["ones"], to=onnx.TensorProto.INT64))
    chosen = ["ones", mask] if cached else [mask, "ones"]
    body.node.insert(2, helper.make_node("Where", ["use_cache_branch", *chosen], ["all_real"]))
    onnx.save(model, path)
    report = verify(folder, cases="quick", allow_edited=True)
    assert report.failed
    assert {(case.graphs, case.exception) for case in report.failed} == {(HUB, None)}
    wrong = {(check.graph, check.output) for case in report.failed for check in case.checks if not check.ok}
    merged = path.relative_to(folder).as_posix()
    assert (merged, "logits") in wrong
    found = graph_results(report)
    assert [file for file, words in found.items() if not words.startswith("equal, ")] == [merged]
