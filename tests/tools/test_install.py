"""The tools leave alone what a user has: its environment, and bundles that lie in the checkout."""

import shutil
import subprocess
import sys

from helpers.project import ROOT

# Stands for every Python: makes an environment that contains itself, and writes down how it is called.
PYTHON = """#!/bin/sh
echo "$0 $*" >>"$CALLS"
case "$*" in
  "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
  "-m pip show"*) exit 1 ;;
esac
"""


def test_the_documentation_is_built_in_an_environment_of_its_own(tmp_path):
    """It must neither change the versions in a user's .venv nor make its installation editable."""
    (tmp_path / "tools").mkdir()
    for name in ("pyproject.toml", "constraints.txt", "tools/docs", "tools/install"):
        shutil.copy(ROOT / name, tmp_path / name)
    stub, calls = tmp_path / "python", tmp_path / "calls"
    stub.write_text(PYTHON)
    stub.chmod(0o755)
    for folder in (".venv/bin", "build/docs"):
        (tmp_path / folder).mkdir(parents=True)
    shutil.copy(stub, tmp_path / ".venv/bin/python")
    environment = {"PATH": "/usr/bin:/bin", "PYTHON": str(stub), "CALLS": str(calls)}
    subprocess.run([tmp_path / "tools/docs"], env=environment, check=True, capture_output=True)
    lines = calls.read_text().splitlines()
    assert [line for line in lines if ".venv" in line] == []
    installing = [line for line in lines if " install " in line]
    assert len(installing) == 1
    assert installing[0].startswith("build/docs-venv/bin/python ")
    assert "docs]" in installing[0]
    assert lines[-1] == "build/docs-venv/bin/python -m documentation"


def test_bundles_in_the_checkout_do_not_change_what_is_well_formatted(tmp_path):
    """ruff took a folder called as a module of tools/train for that module, and asked for another order."""
    (tmp_path / "tools/bench").mkdir(parents=True)
    for name in ("pyproject.toml", "tools/bench/dtypes.py"):
        shutil.copy(ROOT / name, tmp_path / name)
    assert "import translator" in (tmp_path / "tools/bench/dtypes.py").read_text()
    (tmp_path / "translator/onnx").mkdir(parents=True)
    (tmp_path / "translator/txexport.json").write_text("{}")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "."]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "All checks passed!\n")
