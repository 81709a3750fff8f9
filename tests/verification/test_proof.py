"""A bundle remembers what verify last found, and for which files that holds."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import tamper, weights_path

import txexport
from txexport import bundle
from txexport.bundle.proof import ANSWERS
from txexport.cli.main import main
from txexport.contracts import roles
from txexport.verification import CaseReport, Report, TensorCheck
from txexport.verification.proof import proof

WEIGHT = "encoder.layers.1.feed_forward.up.weight"


@pytest.fixture
def fresh(bundle_of, tmp_path) -> Path:
    """A bundle that was never verified."""
    shutil.copytree(bundle_of("bert"), tmp_path / "out")
    manifest = bundle.read(tmp_path / "out")
    dataclasses.replace(manifest, proof=None).write(tmp_path / "out" / bundle.MANIFEST)
    (tmp_path / "out" / ANSWERS).unlink(missing_ok=True)
    return tmp_path / "out"


def invoke(*arguments) -> tuple[int, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, " ".join(result.output.split())


def test_inspect_shows_what_verify_found(fresh):
    assert "not verified yet" in invoke("inspect", fresh)[1]
    before = bundle.read(fresh)
    report = txexport.verify(fresh, cases="quick")
    after = bundle.read(fresh)
    assert dataclasses.replace(after, proof=None) == before
    assert bundle.present(fresh) == sorted([*before.files, ANSWERS])
    assert after.proof.numbers == sum(check.elements for case in report.cases for check in case.checks)
    assert 0 < after.proof.worst_error <= after.proof.bound == 1e-5
    tried = [case for case in report.cases if case.skipped is None]
    assert (after.proof.cases, after.proof.failed) == (len(tried), 0)
    assert [case.name for case in report.cases if case not in tried] == ["tokenizer"]
    assert after.proof.references == ["twin", "transformers"]
    assert after.proof.session_options == {"float32": after.session_options}
    assert after.proof.processors == []  # it has no tokenizer
    txexport.load(fresh).close()  # which checks graphs and weights
    found = txexport.inspect(fresh).bundle
    assert (found.proof, found.changed) == (after.proof, [])
    output = invoke("inspect", fresh)[1]
    assert "verified: equal to twin and transformers on onnxruntime cpu (quick cases)" in output
    assert f"{after.proof.numbers:,} numbers, worst {after.proof.worst_error:.1e} of 1e-05" in output
    assert f"on {report.created} by txexport" in output
    values = json.loads(invoke("inspect", fresh, "--json")[1])["bundle"]
    assert (values["proof"]["verdict"], values["changed"]) == ("equal", [])


@pytest.mark.parametrize(
    "file", ["native graph", "hub graph", "weights", "tokenizer.json", "new.json", "gone"]
)
def test_proof_of_other_files_is_said_to_be_one(file, fresh):
    txexport.verify(fresh, cases="quick", reference="twin")
    if file.endswith("graph"):
        manifest = bundle.read(fresh)
        file = {"native graph": manifest.native, "hub graph": manifest.hub}[file][roles.MODEL].file
        model = onnx.load(fresh / file, load_external_data=False)
        model.doc_string = "changed"
        onnx.save(model, fresh / file)
    elif file == "weights":
        tamper(fresh, WEIGHT, lambda numbers: 1.01 * numbers)
        file = weights_path(fresh).relative_to(fresh).as_posix()
    elif file == "gone":
        file = "config.json"
        (fresh / file).unlink()
    else:
        (fresh / file).write_text("{}")
    assert txexport.inspect(fresh).bundle.changed == [file]
    output = invoke("inspect", fresh)[1]
    assert f"and changed since: {file}; verify again" in output
    assert "equal to" not in output


def test_failure_is_recorded_too(fresh):
    txexport.verify(fresh, cases="quick", reference="twin")
    tamper(fresh, WEIGHT, lambda numbers: 1.01 * numbers)
    report = txexport.verify(fresh, cases="quick", reference="twin")
    found = bundle.read(fresh).proof
    assert (found.verdict, found.failed) == ("NOT EQUAL", len(report.failed))
    output = invoke("inspect", fresh)[1]
    assert "verified: NOT EQUAL to twin" in output
    assert f"{len(report.failed)} failed" in output


def test_cases_by_name_are_no_proof(fresh):
    txexport.verify(fresh, cases=["one token"], reference="twin")
    assert bundle.read(fresh).proof is None


def test_bundle_that_cannot_be_written_is_still_verified(fresh, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(bundle.Manifest, "write", refuse)
    code, output = invoke("verify", fresh, "--cases", "quick", "--reference", "twin")
    assert code == 0
    assert output.count("warning: ") == 1
    assert f"warning: the proof was not recorded in {fresh}: Permission denied" in output
    assert "equal to twin" in output
    assert bundle.read(fresh).proof is None


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write into any folder")
def test_read_only_folder(fresh):
    fresh.chmod(0o555)
    try:
        with pytest.warns(UserWarning, match="the proof was not recorded in .*: Permission denied"):
            assert txexport.verify(fresh, cases="quick", reference="twin").ok
    finally:
        fresh.chmod(0o755)
    assert bundle.present(fresh) == sorted(bundle.read(fresh).files)


def test_interrupted_record_leaves_the_bundle_as_it_was(fresh, monkeypatch):
    def half(self, path):
        path.write_text("{")
        raise OSError(28, "No space left on device")

    before = bundle.read(fresh)
    monkeypatch.setattr(bundle.Manifest, "write", half)
    with pytest.warns(UserWarning, match="No space left on device"):
        txexport.verify(fresh, cases="quick", reference="twin")
    assert bundle.read(fresh) == before
    assert bundle.present(fresh) == sorted(before.files)


def test_what_is_nearest_to_its_bound_is_the_worst():
    checks = [TensorCheck("wide", 3, 1e-6, 1e-4), TensorCheck("tight", 4, 9e-7, 1e-6)]
    cases = [CaseReport("a", "twin", checks), CaseReport("b", "twin", skipped="why")]
    found = proof(Report("b", "bert", "t", "cpu", {}, cases), {})
    assert (found.worst_output, found.worst_error, found.bound) == ("tight", 9e-7, 1e-6)
    assert (found.cases, found.skipped, found.numbers) == (1, 1, 7)
    nothing = proof(Report("b", "bert", "t", "cpu", {}, []), {})
    assert (nothing.verdict, nothing.worst_error) == ("NOT EQUAL", None)


def test_inspect_of_a_proof_takes_no_heavy_library_along(fresh):
    txexport.verify(fresh, cases="quick", reference="twin")
    code = f"import sys, txexport; txexport.inspect({str(fresh)!r}); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
