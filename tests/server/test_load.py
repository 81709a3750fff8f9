"""Under load every result is the serial one, nothing is lost, and memory does not grow."""

import subprocess
import sys

import pytest
from helpers.project import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "bundle"),
    [("throughput", "python-completer"), ("embeddings", "encoder"), ("load", "python-completer")],
)
def test_many_clients_at_once(what, bundle, folders):
    """16 generations at once, 10,000 texts by 64 clients, 200 clients for a minute."""
    command = [sys.executable, ROOT / "tools/bench/serve.py", what, folders[bundle]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
