"""Number formats on the command line."""

import json

import pytest
from click.testing import CliRunner

import txexport
from txexport import bundle
from txexport.cli.main import main
from txexport.formats import DTYPES


def invoke(*arguments) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_export_verify_and_answer(checkpoint_of, tmp_path):
    out = tmp_path / "out"
    code, output, noise = invoke("export", checkpoint_of("bert"), out, "--dtype", "int8,int4")
    assert (code, noise) == (0, "")
    native = "onnx/model_native_int8.onnx, onnx/model_native_q4.onnx"
    others = "onnx/model_int8.onnx, onnx/model_q4.onnx (OpenVINO, optimum, transformers.js)"
    assert output == f"{out}: bert, feature-extraction: {native}; for other clients {others}\n"
    report = tmp_path / "report.json"
    cases = ["--case", "one token", "--reference", "transformers", "--json", report]
    code, output, _ = invoke("verify", out, *cases)
    assert code == 0
    words = " ".join(output.split())
    assert "equal to transformers" in words
    for which in ("(int8)", "(hub, int8)", "(int4)", "(hub, int4)"):
        assert f"transformers {which}" in words
    graphs = {case["graphs"] for case in json.loads(report.read_text())["cases"]}
    assert graphs == {"native int8", "hub int8", "native int4", "hub int4"}
    code, output, _ = invoke("embed", out, "the cat", "--pooling", "mean", "--json")
    assert code == 0
    model = txexport.load(out, device="cpu", dtype="int8")
    assert json.loads(output)["embedding"] == pytest.approx(list(model.embed("the cat", pooling="mean")))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ["--dtype", "int8,int2"],
            f"dtype 'int2' is not known; expected one of {', '.join(DTYPES)}",
        ),
        (["--dtype", "int8,"], "dtype '' is not known"),
        (["--dtype", "int8, int4"], "dtype ' int4' is not known"),
        (["--dtype", "int4", "--opset", "20"], "dtype int4 needs opset 21 or newer, not 20"),
        (["--dtype", "int8,int8"], "dtypes are int8, int8, expected one or more, each once"),
    ],
)
def test_an_error_is_one_line(arguments, why, checkpoint_of, tmp_path):
    code, output, noise = invoke("export", checkpoint_of("bert"), tmp_path / "out", *arguments)
    assert (code, output) == (2, "")
    assert noise.startswith(f"error: {why}")
    assert noise.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_texts_calibrate(checkpoint_of, tmp_path):
    """Export writes calibrated weights, and quantize adds them; verify reports both."""
    file, out = tmp_path / "texts.txt", tmp_path / "out"
    file.write_text("the cat sat on the mat\n" * 9 + "\nwhere was Ada Lovelace born\n", encoding="utf-8")
    code, output, noise = invoke("export", checkpoint_of("bert"), out, "--dtype", "int4", "--texts", file)
    assert (code, noise) == (0, "")
    assert "onnx/model_q4.onnx" in output
    code, _, noise = invoke("quantize", out, "--dtype", "int4-128", "--texts", file)
    assert (code, noise) == (0, "")
    recorded = bundle.read(out).form.calibrated
    assert [*recorded] == ["int4", "int4-128"]
    assert recorded["int4"] == recorded["int4-128"]
    assert recorded["int4"].texts == 10
    chosen = ("--cases", "quick", "--reference", "twin", "--quiet")
    assert invoke("verify", out, *chosen)[0] == 2  # cannot be verified without the texts
    code, output, _ = invoke("verify", out, *chosen, "--texts", file)
    assert code == 0
    for dtype in recorded:
        assert f"{dtype} is calibrated by 10 texts of" in " ".join(output.split())


UNREAD = "texts need a model that reads texts; this one is for"


@pytest.mark.parametrize(
    ("family", "dtype", "content", "why"),
    [
        (
            "bert",
            "int8",
            b"a",
            "texts calibrate int4, int4-fast, int4-128 and int4-128-fast only, not int8; leave them out",
        ),
        (
            "vit",
            "int4",
            b"a",
            "texts need a model that reads texts; this one is for image-feature-extraction",
        ),
        ("bert", "int4", b"", "{file} has no texts; expected one a line"),
        ("bert", "int4", b"\xff", "{file} is not UTF-8: byte 0"),
        (
            "bert",
            "int4",
            b"a\tb\tc",
            r"'a\tb\tc' has 3 parts, expected a text, or two and a tab between them",
        ),
        (
            "gpt2",
            "int4",
            b"a\tb",
            "a decoder takes one text per line, without a tab; this line has two: ('a', 'b')",
        ),
        ("bert", "int4", None, "{file}: No such file or directory"),
    ],
)
def test_texts_that_calibrate_nothing_are_told(family, dtype, content, why, checkpoint_of, tmp_path):
    file = tmp_path / "texts.txt"
    if content is not None:
        file.write_bytes(content)
    options = ["--dtype", dtype, "--texts", file]
    code, output, noise = invoke("export", checkpoint_of(family), tmp_path / "out", *options)
    assert (code, output) == (2, "")
    assert noise == f"error: {why.format(file=file)}\n"
    assert not (tmp_path / "out").exists()
