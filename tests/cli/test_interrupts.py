"""Ctrl-C at any moment ends a command without a traceback, also while it is being imported."""

import os
import signal
import subprocess
import sys
import time

import pytest
from helpers.project import ROOT


def test_while_the_command_line_is_imported():
    """The modules of the command line, stopped where each is first looked for."""
    for module in ("txexport.cli.main", "click", "txexport.cli.serve", "txexport.support.printable"):
        code = (
            "import sys, runpy\n"
            "class Interrupting:\n"
            "    def find_spec(self, name, path=None, target=None):\n"
            f"        if name == {module!r}:\n"
            "            raise KeyboardInterrupt\n"
            "sys.meta_path.insert(0, Interrupting())\n"
            "sys.argv = ['txexport', 'families']\n"
            "runpy.run_module('txexport', run_name='__main__')\n"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert (ended.returncode, ended.stderr) == (130, ""), module


@pytest.mark.slow
def test_where_python_ignores_exceptions():
    """An interrupt in a weak reference's callback, which Python forgets, still ends the command."""
    code = (
        "import sys, time, weakref\n"
        "import txexport.__main__ as one, txexport.cli.main as command\n"
        "def interrupt(_):\n"
        "    raise KeyboardInterrupt\n"
        "def run():\n"
        "    thing = lambda: None\n"
        "    reference = weakref.ref(thing, interrupt)\n"
        "    del thing\n"
        "    time.sleep(600)\n"
        "command.main = run\n"
        "one.main()\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=300
    )
    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize(
    "after", [0.15, 1.0, *(pytest.param(s, marks=pytest.mark.slow) for s in (0.3, 0.6, 1.5))]
)
def test_by_a_signal_at_any_time(tmp_path, after):
    command = ["export", str(ROOT / "models/pretrained/number-translator"), str(tmp_path / "bundle")]
    process = subprocess.Popen(
        [sys.executable, "-c", "import txexport.__main__ as one; print(1, flush=True); one.main()", *command],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "1\n"
    time.sleep(after)
    os.kill(process.pid, signal.SIGINT)
    _, noise = process.communicate(timeout=60)
    assert "Traceback" not in noise
    # Python restores the signal's default action as it ends, so the last moments report the signal itself.
    assert process.returncode in (0, 130, -signal.SIGINT)
