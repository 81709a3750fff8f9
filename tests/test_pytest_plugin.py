"""The pytest plugin, in another project's tests."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.bundle_edits import tamper
from helpers.project import ROOT, loaded_after

WEIGHT = "encoder.layers.1.feed_forward.up.weight"
pytestmark = pytest.mark.xdist_group("pytest plugin")  # which shares one run


def run(folder: Path, text: str, *arguments: str) -> pytest.RunResult:
    """Run pytest, in a process of its own and with this plugin alone, on a test file's text."""
    (folder / "test_parity.py").write_text(text)
    plain = ("-p", "txexport.pytest_plugin", "-p", "no:cacheprovider", "--rootdir", str(folder))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plain, *arguments],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    return pytest.RunResult(done.returncode, done.stdout.splitlines(), done.stderr.splitlines(), 0.0)


def calls(**given: str) -> str:
    """A test file with a test for each call of assert_parity, by its name."""
    return "\n".join(
        f"def test_{name}(assert_parity):\n    assert assert_parity({arguments}).ok"
        for name, arguments in given.items()
    )


@pytest.fixture(scope="module")
def bundles(bundle_of, tmp_path_factory) -> dict[str, Path]:
    """Bundles by model_type, a BERT with one changed matrix, and a folder that is none."""
    folders = {model_type: bundle_of(model_type) for model_type in ("bert", "gpt2")}
    folders |= {"broken": tmp_path_factory.mktemp("copy") / "broken", "none": tmp_path_factory.mktemp("none")}
    shutil.copytree(folders["bert"], folders["broken"])
    tamper(folders["broken"], WEIGHT, lambda numbers: numbers + 0.1)
    return folders


@pytest.fixture(scope="module")
def result(bundles, tmp_path_factory) -> tuple[pytest.RunResult, dict]:
    """One run over all of them, and its report."""
    folder = tmp_path_factory.mktemp("run")
    bert, gpt2, broken, none = (repr(str(path)) for path in bundles.values())
    text = calls(
        folder=f"{bert}, cases='quick'",
        model=f"__import__('txexport').load({bert}, device='cpu'), reference='twin', cases='quick'",
        gpt2=f"{gpt2}, reference='twin', cases='quick'",
        broken=f"{broken}, cases=['one token', 'every weight']",
        none=none,
    )
    found = run(folder, text, "-rA", "--parity-report", str(folder / "parity.json"))
    return found, json.loads((folder / "parity.json").read_text())


def test_start_of_pytest_takes_no_heavy_library_along():
    heavy = {"torch", "transformers", "onnx", "onnxruntime", "numpy", "tokenizers", "rich"}
    assert not loaded_after("import txexport.pytest_plugin") & heavy


def test_pytest_finds_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"txexport": "txexport.pytest_plugin"}


def test_equal_bundle_passes_as_folder_and_as_model(result):
    run, _ = result
    run.assert_outcomes(passed=3, failed=2)
    run.stdout.fnmatch_lines([f"PASSED *::test_{name}" for name in ("folder", "model", "gpt2")])


def test_broken_bundle_fails_in_a_readable_message(result, bundles):
    run, broken = result[0], bundles["broken"]
    run.stdout.fnmatch_lines(
        [
            "*_ test_broken _*",
            f"{broken} is NOT EQUAL to twin and transformers on onnxruntime cpu "
            "(only 2 by name; graphs and files were not compared), of *",
            "4 of 4 cases failed:",
            f"  every weight (checkpoint): {WEIGHT} is off by 1e+00",
            f"    txexport verify {broken} --case 'every weight'",
            "  one token (twin): * is off by *",
            f"    txexport verify {broken} --case 'one token' --reference twin",
        ]
    )
    run.stdout.no_fnmatch_line("*Traceback*")
    run.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_what_cannot_be_tried_fails_in_one_line(result, bundles):
    run, none = result[0], bundles["none"]
    run.stdout.fnmatch_lines(["*_ test_none _*", f"{none} could not be tried: {none} is not a bundle: *"])
    run.stdout.no_fnmatch_line("*another exception*")


def test_report_holds_every_bundle_of_the_run(result, bundles):
    run, found = result
    run.stdout.fnmatch_lines(["parity of 4 bundles: *parity.json"])
    assert found["ok"] is False
    assert [report["ok"] for report in found["reports"]] == [True, True, True, False]
    expected = [str(bundles[name]) for name in ("bert", "bert", "gpt2", "broken")]
    assert [report["bundle"] for report in found["reports"]] == expected


def test_report_comes_from_several_workers_too(bundles, tmp_path):
    given = f"{str(bundles['bert'])!r}, reference='twin', cases=['one token']"
    file = tmp_path / "parity.xml"
    text = calls(one=given, other=given)
    run(tmp_path, text, "-p", "xdist", "-n", "2", "--parity-report", str(file)).assert_outcomes(passed=2)
    assert (
        ElementTree.parse(file).getroot().attrib["tests"] == "4"
    )  # of two bundles, the native graphs and the others


def test_report_of_a_run_without_parity_replaces_an_older_one(tmp_path):
    (tmp_path / "parity.json").write_text("old")
    run(tmp_path, "def test_nothing(): pass", "--parity-report", str(tmp_path / "parity.json"))
    assert json.loads((tmp_path / "parity.json").read_text()) == {"format": 1, "ok": False, "reports": []}


@pytest.mark.parametrize(
    ("file", "said"),
    [("parity.txt", "ends in '.txt', expected"), ("test_parity.py/parity.md", "not a folder")],
)
def test_report_that_cannot_be_written_is_said_before_the_tests(file, said, tmp_path):
    result = run(tmp_path, "def test_nothing(): pass", "--parity-report", file)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --parity-report: *{said}*"])
