"""Names that people know from other libraries, and the values that a shell completes."""

import json

import pytest
from click.testing import CliRunner
from helpers.rows import ROWS, TAG

from txexport import bundle, export, inspect, load, quantize
from txexport.cli.main import main
from txexport.errors import UnsupportedError
from txexport.exporter.hub_files import JS_DTYPES
from txexport.formats import DTYPES
from txexport.support import aliases
from txexport.tasks import TASKS


def invoke(*arguments) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def tagger():
    return next(row for row in ROWS if (row.model_type, row.task) == ("bert", TAG))


@pytest.mark.parametrize(("table", "known"), [(aliases.DTYPES, DTYPES), (aliases.TASKS, TASKS)])
def test_an_alias_stands_for_a_name_and_is_none(table, known):
    assert set(table.values()) <= set(known)
    assert not set(table) & set(known)


def test_names_of_transformers_js_are_its_files():
    """A dtype by its name there is the one whose graphs it opens under that name."""
    stored = {"stored", "stored-fast"}
    for ours, theirs in JS_DTYPES.items():
        if ours not in stored:
            assert aliases.dtype_named(theirs) == ours


def test_names_of_pipelines_are_known():
    pipelines = pytest.importorskip("transformers.pipelines")
    known = {ours: theirs for ours, theirs in pipelines.TASK_ALIASES.items() if theirs in TASKS}
    assert known
    assert {name: aliases.task_named(name) for name in known} == known


def test_aliases_are_taken_and_the_canonical_names_are_shown(checkpoint_of, tmp_path):
    source, out = checkpoint_of(tagger()), tmp_path / "out"
    code, text, _ = invoke("export", source, out, "--task", "ner", "--dtype", "fp32,q8", "--only", "native")
    assert (code, text.split(",")[1]) == (0, " token-classification: onnx/model_native.onnx")
    written = bundle.read(out)
    assert (written.task, list(written.formats)) == ("token-classification", ["float32", "int8-fast"])
    assert list(quantize(out, "fp16").formats) == ["float32", "int8-fast", "float16"]
    assert load(out, dtype="fp16").bundle.manifest.dtype == "float16"
    assert "one dtype is added at a time" in invoke("quantize", out, "--dtype", "int8,int4")[2]
    code, _, noise = invoke("quantize", out, "--dtype", "fp16")
    assert (code, noise) == (2, f"error: {out} has float16 already\n")
    again = export(source, tmp_path / "again", task="ner", dtype=["fp32", "q8"], only="native")
    assert (again.task, list(again.formats)) == (written.task, ["float32", "int8-fast"])
    assert inspect(source, task="ner").task == "token-classification"
    with pytest.raises(UnsupportedError, match=r"^task 'noun' is not supported for bert; choose one of "):
        export(source, tmp_path / "none", task="noun")


def test_families_of_one_task():
    code, text, _ = invoke("families", "--task", "asr", "--json")
    every = json.loads(invoke("families", "--json")[1])
    assert (code, json.loads(text)) == (
        0,
        {"automatic-speech-recognition": every["automatic-speech-recognition"]},
    )
    table = invoke("families", "--task", "depth-estimation")[1]
    assert "depth_anything" in table
    assert "bert" not in table
    code, _, noise = invoke("families", "--task", "see")
    assert (code, noise.partition(" text-")[0]) == (
        2,
        "error: Invalid value for '--task': 'see', expected one of",
    )


@pytest.mark.parametrize(
    ("typed", "values"),
    [
        ("export a b --dtype f", ["float32", "float16"]),
        ("export a b --dtype float32,int4-1", ["float32,int4-128", "float32,int4-128-fast"]),
        ("quantize a --dtype b", ["bfloat16"]),
        ("embed a --dtype int8", ["int8", "int8-fast"]),
        ("export a b --task text-", ["text-classification", "text-generation"]),
        ("families --task dep", ["depth-estimation"]),
        ("inspect a --task token", ["token-classification"]),
        ("export a b --for ", ["web", "openvino", "triton", "genai", "cuda"]),
    ],
)
def test_a_shell_completes_values(typed, values):
    environment = {
        "COMP_WORDS": f"txexport {typed}",
        "COMP_CWORD": str(len(typed.split(" "))),
        "_TXEXPORT_COMPLETE": "bash_complete",
    }
    lines = CliRunner().invoke(main, [], prog_name="txexport", env=environment).stdout.splitlines()
    assert [line.partition(",")[2] for line in lines] == values
