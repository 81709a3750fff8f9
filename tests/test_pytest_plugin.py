"""The pytest plugin, as another project's tests meet it."""

import json
import shutil
import tomllib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from test_layout import ROOT, loaded_after
from test_verify import tamper

pytest_plugins = ["pytester"]
WEIGHT = "encoder.layers.1.feed_forward.up.weight"


# pytester takes every module out again that was imported since it was made, and PyTorch cannot be imported
# twice. So bundles are made before it is, and runs have processes of their own.


@pytest.fixture(scope="module")
def bundles(bundle_of) -> dict[str, Path]:
    """Bundles by model_type."""
    return {model_type: bundle_of(model_type) for model_type in ("bert", "gpt2")}


@pytest.fixture
def run(bundles, pytester, monkeypatch):
    """A function from a test file's text and arguments to what pytest made of it, with this plugin alone."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def get(text: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(text)
        plain = ("-p", "txexport.pytest_plugin", "-p", "no:cacheprovider")
        return pytester.runpytest_subprocess(*plain, *arguments)

    return get


@pytest.fixture
def broken(bundles, tmp_path) -> Path:
    """A BERT with one changed matrix."""
    shutil.copytree(bundles["bert"], tmp_path / "broken")
    tamper(tmp_path / "broken", WEIGHT, lambda numbers: numbers + 0.1)
    return tmp_path / "broken"


def calls(*arguments: str) -> str:
    """A test file with a test a call of assert_parity."""
    return "\n".join(
        f"def test_{i}(assert_parity):\n    assert assert_parity({given}).ok"
        for i, given in enumerate(arguments)
    )


def test_start_of_pytest_takes_no_heavy_library_along():
    heavy = {"torch", "transformers", "onnx", "onnxruntime", "numpy", "tokenizers", "rich"}
    assert not loaded_after("import txexport.pytest_plugin") & heavy


def test_pytest_finds_the_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"txexport": "txexport.pytest_plugin"}


def test_equal_bundle_passes_as_folder_and_as_model(run, bundles):
    folder = str(bundles["bert"])
    loaded = f"__import__('txexport').load({folder!r}, device='cpu'), reference='twin', cases='quick'"
    run(calls(f"{folder!r}, cases='quick'", loaded)).assert_outcomes(passed=2)


def test_broken_bundle_fails_in_a_readable_message(run, broken):
    result = run(calls(f"{str(broken)!r}, cases=['one token', 'every weight']"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            f"{broken} is NOT EQUAL to twin and transformers on onnxruntime cpu (only 2 by name)",
            "3 of 3 cases failed:",
            f"  every weight (checkpoint): {WEIGHT} is off by 1e+00",
            f"    txexport verify {broken} --case 'every weight'",
            "  one token (twin): * is off by *",
            f"    txexport verify {broken} --case 'one token' --reference twin",
        ]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_what_cannot_be_tried_fails_in_one_line(run, tmp_path):
    result = run(calls(repr(str(tmp_path))))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"{tmp_path} could not be tried: {tmp_path} is not a bundle: *"])
    result.stdout.no_fnmatch_line("*another exception*")


def test_report_holds_every_bundle_of_the_run(run, bundles, broken, tmp_path):
    text = calls(
        *(f"{str(folder)!r}, reference='twin', cases='quick'" for folder in (bundles["gpt2"], broken))
    )
    result = run(text, "--parity-report", str(tmp_path / "parity.json"))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([f"parity of 2 bundles: {tmp_path / 'parity.json'}"])
    found = json.loads((tmp_path / "parity.json").read_text())
    assert found["ok"] is False
    assert [report["ok"] for report in found["reports"]] == [True, False]
    assert [report["bundle"] for report in found["reports"]] == [str(bundles["gpt2"]), str(broken)]


def test_report_comes_from_several_workers_too(run, bundles, tmp_path):
    text = calls(*2 * (f"{str(bundles['bert'])!r}, reference='twin', cases=['one token']",))
    file = tmp_path / "parity.xml"
    result = run(text, "-p", "xdist", "-n", "2", "--parity-report", str(file))
    result.assert_outcomes(passed=2)
    assert ElementTree.parse(file).getroot().attrib["tests"] == "2"


def test_report_of_a_run_without_parity_replaces_an_older_one(run, tmp_path):
    (tmp_path / "parity.json").write_text("old")
    run("def test_nothing(): pass", "--parity-report", str(tmp_path / "parity.json"))
    assert json.loads((tmp_path / "parity.json").read_text()) == {"format": 1, "ok": False, "reports": []}


@pytest.mark.parametrize(
    ("file", "said"),
    [("parity.txt", "ends in '.txt', expected"), ("nowhere/parity.md", "not a folder")],
)
def test_report_that_cannot_be_written_is_said_before_the_tests(file, said, run):
    result = run("def test_nothing(): pass", "--parity-report", file)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: --parity-report: *{said}*"])
