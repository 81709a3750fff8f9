"""Some mutants of tools/fuzz, and tests that the fuzzer detects faults."""

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from fuzzing import json_values, raw_bytes
from fuzzing.arguments import METHODS
from fuzzing.case import ASKED
from fuzzing.commands import COMMANDS
from helpers.project import ROOT

from txexport.tasks import ROWS

pytestmark = pytest.mark.xdist_group("fuzz")  # which shares the faults


def python(*arguments: str) -> subprocess.CompletedProcess:
    """A subprocess, since the fuzzer forks: this process has threads."""
    paths = [ROOT / "tools", *map(Path, sys.path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONHASHSEED": "0"}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("count", [12, pytest.param(270, marks=pytest.mark.slow)])
def test_mutants_are_answered_or_refused_in_one_line(count):
    done = python("-m", "fuzzing", "--count", str(count), "--jobs", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{count} mutants" in done.stdout
    assert "no fault" in done.stdout


# Faulty targets, and the fuzzer's report on each.
WRONG = """
import json, math, os, signal, sys, tempfile, time
from pathlib import Path
import txexport
from fuzzing.pool import run
from fuzzing.targets import TARGETS, Target
from fuzzing.worker import Limits, Mutant

def told(text):
    error = txexport.TxexportError()
    error.args = (text,)  # which would be put in one line
    raise error

def loop(case):
    case.note("it loops")
    while True:
        pass

calls = {
    "right": lambda case: case.attempt(told, "one line"),
    "two lines": lambda case: case.attempt(told, "one\\ntwo"),
    "no line": lambda case: case.attempt(told, ""),
    "long line": lambda case: case.attempt(told, "x" * 100_000),
    "raises": lambda case: case.attempt(int, "x"),
    "exits": lambda case: sys.exit(0),
    "not finite": lambda case: case.attempt(lambda: [{"score": math.nan}]),
    "loops": loop,
    "sleeps": lambda case: time.sleep(60),
    "forks": lambda case: os.fork() and os.kill(os.getpid(), signal.SIGSEGV) or time.sleep(60),
    "allocates": lambda case: b"x" * (300 << 20),
    "addresses": lambda case: bytearray(1 << 40),
    "dies": lambda case: os.kill(os.getpid(), signal.SIGSEGV),
    "deletes": lambda case: (case.work / "canary").unlink(),
    "right after all": lambda case: case.attempt(told, "one line"),
}
TARGETS |= {name: Target(call) for name, call in calls.items()}
with tempfile.TemporaryDirectory() as folder:
    seeds = Path(folder) / "seeds"
    mutants = [Mutant(name, 0, 0) for name in calls]
    results = run(mutants, seeds, Limits(processor=3, wall=12, memory=200 << 20), 2)
    print(json.dumps({mutant.target: (result.fault, result.notes) for mutant, result in results}))
"""
SEEN = {
    "right": None,
    "two lines": "TxexportError not of one line: 2 lines, 7 characters",
    "no line": "TxexportError not of one line: 0 lines, 0 characters",
    "long line": "TxexportError not of one line: 1 lines, 100000 characters",
    "raises": "ValueError: invalid literal for int() with base 10: 'x'",
    "exits": "SystemExit: 0",
    "not finite": "an answer that is not finite",
    "loops": "took > 3 s of processor",
    "sleeps": "took > 12 s",
    "forks": "died of SIGSEGV",
    "allocates": "took > 200 MB",
    "addresses": "MemoryError: ",
    "dies": "died of SIGSEGV",
    "deletes": "a file outside of the folder was changed or deleted",
    "right after all": None,
}


@pytest.fixture(scope="module")
def results() -> dict:
    done = python("-c", WRONG)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", SEEN)
def test_a_fault_is_seen(name, results):
    assert results[name][0] == SEEN[name]


def test_what_a_dead_process_was_at_is_known(results):
    assert results["loops"][1] == ["it loops"]


def test_every_task_and_method_is_tried():
    assert set(ASKED) == {task.methods[0] for task in ROWS}
    methods = {method for task in ROWS for method in task.methods}
    assert set(METHODS) >= methods
    assert set(COMMANDS) >= {method.replace("_", "-") for method in methods}


@pytest.mark.parametrize("change", [json_values.change, raw_bytes.change])
def test_a_mutant_depends_on_its_number_alone(change):
    data = json.dumps({"hidden_size": 48, "layers": [1, 2, {"a": None}], "name": "bert"}).encode()
    found = [change(Random(f"0/config/{index}"), data) for index in range(200)]
    assert found == [change(Random(f"0/config/{index}"), data) for index in range(200)]
    assert len({changed for changed, _ in found} - {data}) > 120
