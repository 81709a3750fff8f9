"""Files that commands write: never over a bundle, a checkpoint or other work of the user's."""

import numpy as np
import pytest
from click.testing import CliRunner

from txexport import bundle
from txexport.cli.main import main


def invoke(*arguments) -> tuple[int, str]:
    """The exit code and the output, of which errors are part."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("embed", "a text"), "--output=new.npy"),
        (("embed", "a text"), "--output=onnx/model.onnx"),
        (("detect", "page.png"), "--draw=page.png"),
        (("detect", "page.png", "other.png"), "--draw=."),
        (("transcribe", "talk.wav"), "--output=."),
        (("transcribe", "talk.wav"), "--output=talk.txt"),
        (("attention", "a text"), "--html=page.html"),
        (("bench",), "--plot=plot.svg"),
        (("compare-dtypes",), "--plot=plot.svg"),
        (("inspect",), "--html=new/page.html"),
        (("verify",), "--report=report.html"),
        (("attest",), "--output=statement.json"),
    ],
)
def test_no_command_writes_into_a_bundle(command, option, bundle_of):
    """The next verify would find the bundle NOT EQUAL to its checkpoint."""
    folder = bundle_of("bert")
    before = bundle.files_sha256(folder)
    name, _, target = option.partition("=")
    code, output = invoke(command[0], folder, *command[1:], name, folder / target)
    assert (code, output.count("\n")) == (2, 1)
    assert "would be inside a bundle, and change it; write it elsewhere" in output
    assert bundle.files_sha256(folder) == before


@pytest.mark.parametrize(
    ("command", "target"),
    [
        (("embed", "--pooling", "mean", "the cat", "--output"), "vectors.npy"),
        (("inspect", "--json", "--html"), "page.html"),
        (("verify", "--case", "every weight", "--report"), "report.json"),
    ],
)
def test_missing_folders_of_outputs_are_made(command, target, bundle_of, tmp_path):
    name, *rest = command
    file = tmp_path / "new" / "folder" / target
    code, output = invoke(name, bundle_of("bert"), *rest, file)
    assert (code, file.stat().st_size > 0) == (0, True), output


def test_an_output_replaces_an_earlier_one_also_beside_a_config_of_something_else(bundle_of, tmp_path):
    """Scripts write the same file again, and many projects have a config.json."""
    (tmp_path / "config.json").write_text("{}")
    embed = "embed", bundle_of("bert"), "--pooling", "mean", "--output", tmp_path / "vectors.npy"
    for count in (1, 2):
        assert invoke(*embed, *["the cat"] * count)[0] == 0
        assert len(np.load(tmp_path / "vectors.npy")) == count


def test_an_empty_file_has_vectors_as_wide_as_others(bundle_of, tmp_path):
    """Arrays of several files can then be joined."""
    (tmp_path / "empty.txt").touch()
    target = tmp_path / "vectors.npy"
    code, _ = invoke(
        *("embed", bundle_of("bert"), "--pooling", "mean", "--file", tmp_path / "empty.txt"),
        *("--output", target),
    )
    assert (code, np.load(target).shape) == (0, (0, 48))


def test_an_output_replaces_no_file_of_a_checkpoint(bundle_of, checkpoint_of):
    weights = checkpoint_of("bert") / "model.safetensors"
    code, output = invoke("embed", bundle_of("bert"), "the cat", "--output", weights)
    assert (code, output) == (
        2,
        f"error: '{weights}' would replace model.safetensors, a file of a checkpoint; write it elsewhere\n",
    )
