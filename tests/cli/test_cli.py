"""The command line, for people and scripts."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner
from helpers.bundle_edits import relist, tamper
from helpers.rows import ROWS, WITHOUT_LIBRARY

from txexport.cli.main import main


def invoke(*arguments) -> tuple[int, str, str]:
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_export_then_generate(checkpoint_of, tmp_path):
    code, output, noise = invoke("export", checkpoint_of("gpt2"), tmp_path / "out")
    assert (code, noise) == (0, "")
    clients = ["onnxruntime-genai", "OpenVINO", "optimum", "transformers.js"]
    graphs = f"onnx/model_static.onnx; for other clients onnx/model.onnx ({', '.join(clients)})"
    assert output == f"{tmp_path / 'out'}: gpt2, text-generation, static cache: {graphs}\n"
    written = json.loads(invoke("export", checkpoint_of("gpt2"), tmp_path / "out", "--force", "--json")[1])
    assert (written["bundle"], written["task"]) == (str(tmp_path / "out"), "text-generation")
    assert written["clients"] == clients
    assert written["formats"]["float32"]["native"]["model"]["file"] == "onnx/model_static.onnx"
    code, output, _ = invoke("generate", tmp_path / "out", "the cat", "--max-new-tokens", 4, "--json")
    assert code == 0
    assert json.loads(output)["prompt"] == "the cat"
    code, text, _ = invoke("generate", tmp_path / "out", "the cat", "--max-new-tokens", 4)
    assert text == json.loads(output)["text"] + "\n"
    (tmp_path / "prompts").write_text("the cat\nthe cat\n")
    file = "--file", tmp_path / "prompts", "--max-new-tokens", 4, "--json"
    assert invoke("generate", tmp_path / "out", *file)[1] == 2 * output


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "nowhere", "out"],
        ["verify", "nowhere"],
        ["embed", "nowhere", "text"],
        ["generate", "nowhere", "text"],
        ["inspect", "nowhere"],
    ],
)
def test_error_is_one_line_and_exit_code_2(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output, noise = invoke(*arguments)
    assert (code, output) == (2, "")
    assert noise.startswith("error: nowhere ")
    assert noise.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("model_type", "warning"),
    [
        ("vit", "the checkpoint has no preprocessor_config.json; the bundle reads arrays only, no files"),
        ("bert", ""),
    ],
)
def test_what_a_checkpoint_lacks_is_said_at_export(model_type, warning, checkpoint_of, tmp_path):
    code, _, noise = invoke("export", checkpoint_of(model_type), tmp_path / "out")
    assert (code, noise) == (0, f"warning: {warning}\n" if warning else "")


def test_existing_folder_needs_force(checkpoint_of, tmp_path):
    assert invoke("export", checkpoint_of("bert"), tmp_path / "out")[0] == 0
    code, _, noise = invoke("export", checkpoint_of("bert"), tmp_path / "out")
    assert code == 2
    assert "--force" in noise
    assert (
        invoke("export", checkpoint_of("bert"), tmp_path / "out", "--force", "--task", "feature-extraction")[
            0
        ]
        == 0
    )


def test_warnings_are_one_line(bundle_of, tmp_path):
    shutil.copytree(bundle_of("gpt2"), tmp_path / "copy")
    (tmp_path / "copy" / "generation_config.json").write_text('{"guidance_scale": 4}')
    relist(tmp_path / "copy")
    _, _, noise = invoke("generate", tmp_path / "copy", "the cat", "--max-new-tokens", 2)
    assert noise == "warning: generation ignores guidance_scale=4\n"


def test_families_lists_every_task():
    _, output, _ = invoke("families", "--json")
    listed = {(name, task) for task, names in json.loads(output).items() for name in names}
    every = [*ROWS, *WITHOUT_LIBRARY]
    assert listed == {(row.model_type, row.task) for row in every}
    _, table, _ = invoke("families")
    words = set(table.replace(",", " ").split())
    assert {word for row in every for word in (row.model_type, row.task)} <= words


def test_families_says_what_judges_those_that_no_library_has():
    _, table, _ = invoke("families")
    told = " ".join(table.split())
    count = len({row.model_type for row in ROWS})
    assert f"{count} are model types of transformers, and are verified against its classes." in told
    assert (
        "jina_bert and nomic_bert_moe are in no library, and are verified against txexport's PyTorch twin"
        in told
    )


@pytest.mark.parametrize("text", ["[/]", "[bold]hello", "a [/b] c", "see [red] here"])
def test_text_is_not_markup(text, bundle_of):
    code, output, _ = invoke("embed", bundle_of("bert"), text, "the cat", "--pooling", "mean")
    assert code == 0
    assert text in output


def test_many_texts_come_with_their_nearest(bundle_of):
    code, output, _ = invoke("embed", bundle_of("bert"), *["the cat", "the dog"] * 6, "--pooling", "mean")
    assert code == 0
    assert "nearest" in output
    assert output.count("1.00") == 12
    code, output, _ = invoke("embed", bundle_of("bert"), "the cat", "--pooling", "mean")
    assert "48" in output


def test_defect_is_not_the_verdict_not_equal(bundle_of, monkeypatch):
    monkeypatch.setattr("txexport.verification.verify_plan.BundleFiles", lambda *_, **__: 1 / 0)
    code, _, noise = invoke("verify", bundle_of("bert"))
    assert code == 2
    assert "ZeroDivisionError" in noise
    monkeypatch.setattr("txexport.verification.verify_plan.BundleFiles", interrupt)
    assert invoke("verify", bundle_of("bert"))[0] == 130


def interrupt(*_, **__):
    raise KeyboardInterrupt


def test_module_runs_too():
    command = [sys.executable, "-m", "txexport", "families", "--json"]
    assert '"fill-mask": ["albert", "bert"' in subprocess.run(command, capture_output=True, text=True).stdout


def test_runs_as_a_program(tmp_path):
    command = [sys.executable, "-c", "from txexport.cli.main import main; main()", "verify", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert (
        done.stderr
        == f"error: {tmp_path} is not a bundle: it has no txexport.json; make one with txexport export\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pipes that break this way")
def test_closed_pipe_changes_no_exit_code(bundle_of, tmp_path):
    """The exit code of `verify … | head` in a script with pipefail is the verdict."""
    shutil.copytree(bundle_of("bert"), tmp_path / "wrong")
    tamper(tmp_path / "wrong", "encoder.layers.0.attention.v.bias", lambda numbers: numbers + 1)
    report = "--json", "/dev/stdout"
    case = "--case", "one token", "--reference", "twin"
    for expected, arguments in (
        (0, ["families"]),
        (0, ["inspect", bundle_of("bert")]),
        (0, ["verify", bundle_of("bert"), *case]),
        (1, ["verify", tmp_path / "wrong", *case, *report]),
    ):
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-m", "txexport", *map(str, arguments)]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
        os.close(write)
        assert (done.returncode, done.stderr) == (expected, ""), arguments


def test_error_of_the_system_without_a_number_is_told(monkeypatch):
    def fail(*_):
        raise OSError("no space")

    monkeypatch.setattr("txexport.families.by_task", fail)
    assert invoke("families") == (2, "", "error: output: no space\n")


@pytest.mark.parametrize("prompts", [["the cat"], ["the cat", "the dog"]])
@pytest.mark.parametrize(
    "name", ["src_lang", "progress", "method", "prompts", "batch_tokens", "logits_processor"]
)
def test_set_takes_options_of_generation_and_no_arguments(name, prompts, bundle_of):
    arguments = "generate", bundle_of("gpt2"), *prompts, "--set", f"{name}=1", "--batch-tokens", 3
    code, output, noise = invoke(*arguments)
    assert (code, output) == (2, "")
    assert re.fullmatch(rf"error: no option '{name}'(; did you mean .*)?\n", noise)


def test_option_that_changes_nothing_is_told_once(bundle_of):
    _, _, noise = invoke(
        "generate", bundle_of("gpt2"), "the cat", "--max-new-tokens", 2, "--temperature", 0.5
    )
    assert noise == "warning: temperature changes nothing without do_sample=True\n"


def test_help_says_what_each_command_does():
    _, output, _ = invoke("--help")
    for command in ("export", "inspect", "verify", "embed", "generate", "families"):
        assert command in output
        assert invoke(command, "--help")[0] == 0
