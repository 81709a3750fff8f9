"""A bundle keeps answers of its original, and is compared with them where it runs."""

import dataclasses
import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, tamper
from helpers.project import ROOT

import txexport
from txexport import bundle
from txexport.bundle.proof import ANSWERS
from txexport.cli.main import main
from txexport.errors import BundleError, InputError, NotEqualError
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.server.served import Limits, open_all
from txexport.verification.answers import recording
from txexport.verification.answers.stored import Answer, check, digest, sampled
from txexport.verification.reports.facts import facts_line

ROUNDING = ("int8", "int8-fast", "int4")
LIMITS = Limits(cache_tokens=512, max_new_tokens=8, max_waiting=4, max_body=2**20, timeout=60)
WITHOUT = """
import sys
for name in ("torch", "transformers", "onnx", "onnxscript", "onnx_ir"):
    sys.modules[name] = None  # an import of it fails
import txexport
report = txexport.verify_here(sys.argv[1])
checks = [check for case in report.cases for check in case.checks]
print(report.verdict, len(report.cases), sum(check.elements for check in checks))
from click.testing import CliRunner
from txexport.cli.main import main
for file in sys.argv[2:]:
    result = CliRunner().invoke(main, ["verify", sys.argv[1], "--here", "--report", file])
    print(result.exit_code)
print(sorted(name for name in sys.modules if name.split(".")[0] in ("txmodels", "txgraphs", "safetensors")))
"""


@pytest.fixture(scope="session")
def proved_once(tmp_path_factory, bundle_of):
    """A function from a model_type to a verified bundle, which no test may change."""
    bundles: dict[str, Path] = {}

    def get(model_type: str) -> Path:
        if model_type not in bundles:
            bundles[model_type] = tmp_path_factory.mktemp("proved") / "out"
            shutil.copytree(bundle_of(model_type), bundles[model_type])
            assert txexport.verify(bundles[model_type], cases="quick").ok
        return bundles[model_type]

    return get


@pytest.fixture
def proved(proved_once, tmp_path):
    """A function from a model_type to a verified bundle of the test's own."""

    def get(model_type: str) -> Path:
        return shutil.copytree(proved_once(model_type), tmp_path / model_type)

    return get


def failures(report: txexport.verification.Report) -> dict[str, float]:
    """The largest error of each output that is wrong."""
    result: dict[str, float] = {}
    for case in report.failed:
        for one in case.checks:
            if not one.ok:
                result[one.output] = max(one.error, result.get(one.output, 0.0))
    return result


def accept(folder: Path, file: Path) -> None:
    """Record the changed content of a graph, or of the answers, so that loading does not refuse it."""
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    path = folder / bundle.MANIFEST
    text = path.read_text()
    manifest = bundle.read_manifest(folder)
    olds = {graph.sha256 for graph in manifest.every_graph if folder / graph.file == file}
    olds |= {manifest.proof.sha256[ANSWERS]} if file.name == ANSWERS else set()
    for old in olds:
        text = text.replace(old, digest)
    path.write_text(text)


@pytest.mark.parametrize("model_type", ["bert", "gpt2", "whisper", "clip", "vit", "llava", "sam", "detr"])
def test_a_proved_bundle_is_equal_where_it_runs(model_type, proved_once):
    """Every output has an answer; an equal bundle stays what verify recorded."""
    folder = proved_once(model_type)
    before = bundle.files_sha256(folder)
    report = txexport.verify_here(folder, device="cpu")
    assert report.ok
    assert report.scope == "to stored answers of transformers on onnxruntime cpu (quick cases)"
    manifest = bundle.read(folder)
    outputs = {port.name for graph in manifest.graphs.values() for port in graph.outputs}
    compared = {check.output for case in report.cases for check in case.checks}
    assert outputs == compared
    assert bundle.files_sha256(folder) == before == manifest.proof.sha256
    assert (folder / ANSWERS).stat().st_size < 12_000
    assert txexport.inspect(folder).bundle.changed == []
    assert sorted(manifest.files) == bundle.present(folder)


def test_neither_pytorch_nor_transformers_nor_onnx_is_needed(proved_once, tmp_path):
    files = [str(tmp_path / name) for name in ("report.json", "report.html")]
    command = [sys.executable, "-c", WITHOUT, str(proved_once("gpt2")), *files]
    lines = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.splitlines()
    assert lines == ["equal 3 191", "0", "0", "[]"]
    assert json.loads(Path(files[0]).read_text())["verdict"] == "equal"
    assert "stored answers of transformers" in Path(files[1]).read_text()


def test_a_dropped_weight_is_found_and_its_outputs_are_named(proved):
    folder = proved("gpt2")
    tamper(folder, "decoder.layers.1.feed_forward.down.weight", np.zeros_like)
    report = txexport.verify_here(folder)
    assert (report.verdict, report.exit_code) == ("NOT EQUAL", 1)
    assert {*failures(report)} == {"logits"}  # keys and values of the last layer come before it
    assert min(failures(report).values()) > 1e-3
    result = CliRunner().invoke(main, ["verify", str(folder), "--here"])
    assert result.exit_code == 1
    assert "NOT EQUAL to stored answers of transformers" in " ".join(result.output.split())

    folder = proved("whisper")
    tamper(folder, "decoder.layers.0.attention.v.bias", lambda numbers: 1.001 * numbers)
    wrong = failures(txexport.verify_here(folder))
    assert "present.0.decoder.value" in wrong
    assert not any("encoder" in name for name in wrong)


def test_a_wrong_graph_is_found(proved):
    folder = proved("bert")
    path = graph_path(folder)
    model = onnx.load(path, load_external_data=False)
    [scale] = {
        attribute.f
        for function in model.functions
        for node in function.node
        for attribute in node.attribute
        if attribute.name == "epsilon"
    }
    for function in model.functions:
        for node in function.node:
            for attribute in node.attribute:
                if attribute.name == "epsilon":
                    attribute.f = scale + 1e-3
    onnx.save(model, path)
    accept(folder, path)
    assert "last_hidden_state" in failures(txexport.verify_here(folder))


def test_a_device_that_rounds_more_is_found(proved_once, monkeypatch):
    """As a provider that computes float32 products with 10 bits does."""
    folder, run = proved_once("bert"), LoadedBundle.run

    def rounded(self, *arguments, **inputs):
        outputs = run(self, *arguments, **inputs)
        return {
            name: (array.view(np.int32) & ~0x1FFF).view(np.float32) if array.dtype == np.float32 else array
            for name, array in outputs.items()
        }

    monkeypatch.setattr(LoadedBundle, "run", rounded)
    wrong = failures(txexport.verify_here(folder))
    assert wrong.keys() == {"last_hidden_state", "pooler_output"}
    assert all(1e-5 < error < 1e-2 for error in wrong.values())


def test_one_number_far_from_the_samples_shows_in_the_norm():
    numbers = np.random.default_rng(0).standard_normal((3, 5, 700)).astype(np.float32)
    expected = numbers.copy()
    missed = next(
        place for place in range(numbers.size) if place not in sampled("case", "logits", numbers.size)
    )
    stored = txexport.verification.answers.stored.answer("case", "logits", None, 1e-5, [(numbers, expected)])
    assert check("case", stored, [numbers]).error < 1e-8  # of nine digits
    for number in (100.0, np.nan, np.inf):
        numbers.reshape(-1)[missed] = number
        assert not check("case", stored, [numbers]).ok
    assert check("case", stored, [expected[:, :4]]).error == np.inf
    assert check("case", stored, [expected.transpose(1, 0, 2)]).error == np.inf


def test_samples_are_at_the_same_places_on_every_machine():
    assert sampled("one token", "logits", 10**6)[:3].tolist() == [60296, 108835, 202099]
    assert sampled("one token", "logits", 5).tolist() == [0, 1, 2, 3, 4]
    assert len(sampled("one token", "present.3.key", 10**6)) == 8
    case = {"b": [np.arange(3), None, (1, "x")]}
    assert digest(case)[:8] == "5426dcf0"
    assert digest(case) != digest({"b": [np.arange(3.0), None, (1, "x")]})


def test_an_edited_answer_is_refused_and_then_found(proved):
    folder = proved("bert")
    path = folder / ANSWERS
    values = json.loads(gzip.decompress(path.read_bytes()))
    values["graphs"]["native"]["cases"][0]["answers"][0]["values"][0] += 0.01
    path.write_bytes(gzip.compress(json.dumps(values).encode()))
    with pytest.raises(BundleError, match="is not what txexport verify recorded; run it again"):
        txexport.verify_here(folder)
    assert "txexport_answers.json.gz" in " ".join(txexport.inspect(folder).bundle.changed)
    txexport.load(folder).close()  # which does not read them
    accept(folder, path)
    assert [case.name for case in txexport.verify_here(folder).failed] == ["one token"]
    assert txexport.verify(folder, cases="quick").ok  # writes them anew
    assert txexport.verify_here(folder).ok


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.update(format=2), "format 2, expected 1"),
        (lambda values: values["graphs"]["native"].pop("lacks"), "lacks"),
        (lambda values: values["graphs"]["native"]["cases"][0].update(calls=[{"x": [2**40]}]), "shapes of"),
        (lambda values: values["graphs"]["native"]["cases"][0]["answers"][0].update(sizes=[]), "samples of"),
        (lambda values: values["graphs"]["native"]["cases"][0]["answers"][0].update(bound="x"), "bound"),
    ],
)
def test_damaged_answers_are_refused(change, message, proved):
    folder = proved("bert")
    path = folder / ANSWERS
    values = json.loads(gzip.decompress(path.read_bytes()))
    change(values)
    path.write_bytes(gzip.compress(json.dumps(values).encode()))
    accept(folder, path)
    with pytest.raises(BundleError, match=rf"is damaged: .*{message}.*; run txexport verify$"):
        txexport.verify_here(folder)


@pytest.mark.parametrize(
    "content",
    [b"", b"none", gzip.compress(b" " * 2**25), gzip.compress(b"[" * 10**5)],
    ids=["empty", "no gzip", "large", "deep"],  # each worker names them alike: gzip writes the time
)
def test_a_file_that_holds_no_answers_is_refused(content, proved):
    folder = proved("bert")
    (folder / ANSWERS).write_bytes(content)
    accept(folder, folder / ANSWERS)
    with pytest.raises(BundleError, match="is damaged"):
        txexport.verify_here(folder)


def test_a_bundle_without_answers_says_which_command_makes_them(checkpoint_of, proved, tmp_path):
    wanted = r"keeps no answers to compare with; txexport verify \S+ records them, where its checkpoint"
    txexport.export(checkpoint_of("t5"), tmp_path / "unverified")
    for folder in (ROOT / "tests/data/bundle-6-gpt2", tmp_path / "unverified"):
        with pytest.raises(BundleError, match=wanted):
            txexport.verify_here(folder)
    folder = proved("bert")
    tamper(folder, "encoder.layers.1.feed_forward.down.weight", np.zeros_like)
    assert not txexport.verify(folder, cases="quick").ok
    assert not (folder / ANSWERS).exists()
    wrong = r"found it NOT EQUAL on \d{4}-\d\d-\d\d; export it again; .* txexport verify \S+ records new"
    with pytest.raises(BundleError, match=wrong):
        txexport.verify_here(folder)


def test_cases_of_another_version_are_refused(proved, monkeypatch):
    folder = proved("bert")
    monkeypatch.setattr(txexport.verification.answers.here, "digest", lambda case: "other")
    with pytest.raises(BundleError, match="makes other inputs of case 'one token' than those"):
        txexport.verify_here(folder)


@pytest.fixture(scope="module")
def rounding_once(tmp_path_factory, checkpoint_of):
    """A verified bundle with three formats that round activations, which no test may change."""
    out = tmp_path_factory.mktemp("rounding") / "out"
    txexport.export(checkpoint_of("gpt2"), out, dtype=["float16", *ROUNDING], only="native")
    assert txexport.verify(out, cases="quick").ok
    return out


def test_formats_that_round_activations_are_compared_within_their_loss(rounding_once):
    report = txexport.verify_here(rounding_once)
    assert report.ok
    assert {case.graphs for case in report.cases} == {
        "native float16",
        *(f"native {one}" for one in ROUNDING),
    }
    rounded = [case for case in report.cases if case.graphs != "native float16"]
    checks = [check for case in rounded for check in case.checks]
    assert {check.output for check in checks} == {"logits"}
    assert all(0.05 <= check.tolerance <= 0.8 for check in checks)
    within = "1e-05 or float32's own rounding, or twice the loss of int8, int8-fast, int4"
    assert f"each within {within}" in facts_line(report)
    assert not any(case.skipped for case in report.cases)


@pytest.mark.parametrize("dtype", ROUNDING)
def test_a_device_that_computes_something_else_in_such_a_format_is_found(dtype, rounding_once, monkeypatch):
    """The faults of WebGPU's early kernels: products of other numbers, and a part left as zeros."""
    run = LoadedBundle.run

    def mixed(self, *arguments, **inputs):
        return {name: array[..., ::-1] for name, array in run(self, *arguments, **inputs).items()}

    def halved(self, *arguments, **inputs):
        outputs = run(self, *arguments, **inputs)
        return {name: array * (np.arange(array.shape[-1]) % 2) for name, array in outputs.items()}

    for fault in (mixed, halved):
        monkeypatch.setattr(LoadedBundle, "run", fault)
        report = txexport.verify_here(rounding_once, dtype=dtype)
        assert len(report.failed) == len(report.cases) > 1, fault


def test_a_format_that_loses_too_much_keeps_no_answers(checkpoint_of, tmp_path, monkeypatch):
    monkeypatch.setattr(recording, "MOST_LOSS", 0.0)
    out = tmp_path / "out"
    txexport.export(checkpoint_of("bert"), out, dtype=["float32", "int8-fast"], only="native")
    txexport.verify(out, cases="quick")
    report = txexport.verify_here(out)
    assert report.ok
    [skipped] = [case for case in report.cases if case.skipped]
    assert (skipped.graphs, skipped.skipped[:21]) == ("native int8-fast", "verify kept none for ")
    with pytest.raises(InputError, match="keeps no answers for what is to be compared: verify kept none"):
        txexport.verify_here(out, dtype="int8-fast")


def test_openvino_is_compared_with_the_answers_too(proved_once):
    pytest.importorskip("openvino")
    report = txexport.verify_here(proved_once("gpt2"), engine="openvino")
    assert report.ok
    assert {check.output for case in report.cases for check in case.checks} >= {"logits", "present.1.value"}
    with pytest.raises(InputError, match="openvino joins its graphs"):
        txexport.verify_here(proved_once("clip"), engine="openvino")


def test_options_that_do_not_apply_are_refused(proved_once):
    folder = str(proved_once("bert"))
    for arguments, message in (
        (["--here", "--layers"], "--layers does not apply with --here"),
        (["--here", "--cases", "full"], "--cases does not apply with --here"),
        (["--dtype", "float32"], "--dtype is for --here"),
    ):
        result = CliRunner().invoke(main, ["verify", folder, *arguments])
        assert (result.exit_code, message in result.output) == (2, True)
    result = CliRunner().invoke(main, ["verify", folder, "--here", "--device", "cpu", "--quiet"])
    assert result.exit_code == 0
    assert "equal to stored answers of transformers on onnxruntime cpu (quick cases)" in result.output


def test_the_server_refuses_a_bundle_that_is_not_equal(proved, checkpoint_of, tmp_path):
    folder = proved("gpt2")
    served = open_all([folder], LIMITS, verify=True, engine="onnxruntime")
    for one in served.values():
        one.stop()
    tamper(folder, "decoder.layers.1.feed_forward.down.weight", np.zeros_like)
    with pytest.raises(NotEqualError, match=r"^gpt2 is not served: on onnxruntime cpu it is not equal to"):
        open_all([folder], LIMITS, verify=True, engine="onnxruntime")
    result = CliRunner().invoke(main, ["serve", str(folder), "--verify", "--port", "18999"])
    assert result.exit_code == 1
    assert result.output.count("\n") == 1
    txexport.export(checkpoint_of("t5"), tmp_path / "unverified")
    with pytest.raises(BundleError, match="keeps no answers"):
        open_all([tmp_path / "unverified"], LIMITS, verify=True, engine="onnxruntime")


def test_an_answer_says_what_its_errors_are_relative_to():
    stored = Answer("logits", None, 1e-5, [[2]], 2, 5.0, 5.0, [3.0, 4.0], [3.0, 5.0])
    assert check("case", stored, [np.array([3.0, 4.1])]).error == pytest.approx(0.02)
    assert dataclasses.asdict(stored)["sizes"] == [3.0, 5.0]
