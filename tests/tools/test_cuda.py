"""The steps for a GPU, on the CPU: they resume, and report exactly the runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_checkpoint
from cuda_steps import empty_cuda, packing, reporting
from cuda_steps.results import AGAIN, Results
from helpers.project import ROOT

ROW = "bert-feature-extraction"
# Random models of these families magnify a rounding of float16 beyond the bound.
MAGNIFYING = {"gemma3", "gemma3_text", "gemma3n", "gemma3n_text", "gemma4", "gemma4_text", "convnextv2"}


def step(state: Path, *words: object) -> subprocess.CompletedProcess:
    """A step in a process of its own, as `tools/cuda` starts it."""
    command = [sys.executable, "-m", "cuda_steps", "--state", state, "--dry-run", *words]
    paths = [ROOT, *(ROOT / name for name in ("models", "graphs", "tests", "tools"))]
    environment = {"PYTHONPATH": ":".join(map(str, paths)), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    return subprocess.run(list(map(str, command)), env=environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_row_is_proved_and_reported(tmp_path):
    assert step(tmp_path, "check").returncode == 0
    done = step(tmp_path, "verify", "--only", ROW)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "results.json").read_text())["verify"]
    assert rows
    assert all(row["ok"] and row["device"] == "cpu" for row in rows.values())
    assert step(tmp_path, "report").returncode == 0
    page = (tmp_path / "report.md").read_text()
    assert "CPU, a dry run" in page
    assert f"{len(rows)} of {len(rows)} rows that ran are equal" in page
    assert "## float16\n\nNot run." in page


@pytest.mark.slow
def test_every_step_runs_over_every_row(tmp_path):
    for name in ("check", "verify", "captured", "float16"):
        while (done := step(tmp_path, name)).returncode == AGAIN:
            pass
        rows = json.loads((tmp_path / "results.json").read_text())[name]
        wrong = {row.split("-")[0] for row, result in rows.items() if not result.get("ok", name == "check")}
        assert wrong <= (MAGNIFYING if name == "float16" else set()), done.stdout[-2000:]
    assert step(tmp_path, "bench", "--layers", 1).returncode == 0
    results = json.loads((tmp_path / "results.json").read_text())["bench"]
    assert len(results) == 7
    captured = {"ours, CUDA graph", "ours, a step as a CUDA graph"}
    without = {*captured, "transformers, flash", "transformers, compiled"}  # a CPU may lack these
    assert all(set(result.get("refused", ())) <= without for result in results.values())
    assert all("error" not in result for result in results.values())
    assert step(tmp_path, "report").returncode == 0


def test_the_empty_cuda_has_counts_of_every_family():
    """No step of a family copies anything within a capture, which would be an error."""
    counts = json.loads((ROOT / "tools/cuda_steps/counts.json").read_text())
    assert counts.keys() == tiny_checkpoint.FAMILIES.keys()
    assert not [name for name, facts in counts.items() if "error" in facts]
    llama = counts["llama"]
    assert (llama["captured"], llama["captured again"]) == (2, 0)  # a short prompt and a step, once
    assert llama["replayed again"] > llama["replayed"] > 0


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("kernel 1,1,1 256 add", "kernel"),
        ("call cublasSgemm 3,4,5", "product"),
        ("copy H2D 8 sync", "up"),
        ("copy D2H 1244 sync", "down"),
        ("copy D2D 64", "other"),
        ("capture begin", "captured"),
        ("capture end", "other"),
        ("graph launch", "replayed"),
        ("! copy H2D 48 in capture", "! copy H2D 48 in capture"),
    ],
)
def test_events_of_the_empty_cuda(line, kind):
    assert empty_cuda.kind(line) == kind


def test_results_go_on_where_they_were(tmp_path):
    """Existing results are not computed again, and steps left when the time is over are reported."""
    ran = []
    assert Results(tmp_path).resume("verify", "ab", lambda name: ran.append(name) or {"ok": True}, 60) == 0
    assert Results(tmp_path).resume("verify", "abc", lambda name: ran.append(name) or {"ok": True}, 60) == 0
    assert ran == ["a", "b", "c"]
    assert Results(tmp_path).resume("verify", "abcd", lambda name: {"ok": True}, -1) == AGAIN

    def fail(name):
        raise ValueError("no such row")

    Results(tmp_path).resume("verify", "x", fail, 60)
    assert Results(tmp_path).steps["verify"]["x"] == {"error": "ValueError: no such row"}
    page = reporting.markdown(Results(tmp_path).steps, {"verify": 9})
    assert "3 of 4 rows that ran are equal; 5 of 9 did not run.\n- x: ValueError: no such row" in page


def test_speed_is_told_beside_the_limit():
    bench = {"weight_bytes": 4_000_000, "seconds": {"ours": 0.1, "theirs": 0.25}, "refused": {"flash": "no"}}
    page = reporting.markdown({"bench": {"limit": {"bytes_per_second": 4e9}, "gpt2 float32": bench}}, {})
    assert "| ours | 0.1000 | 1.00 | 1.9 GB/s, 48% of the limit |" in page
    assert "| theirs | 0.2500 | 2.50 |" in page
    assert "- flash did not run: no" in page


def test_pieces_come_in_any_order_and_a_damaged_one_is_told(tmp_path):
    """Each call transfers one piece; earlier ones are stored."""
    sent, kept, out = tmp_path / "pieces", tmp_path / "kept", tmp_path / "out"
    files = [tmp_path / "a.whl", tmp_path / "b.whl"]
    for number, path in enumerate(files):
        path.write_bytes(bytes(range(number, number + 200)))
    packing.split(files, sent, 150)
    carried = {path.name: path.read_bytes() for path in sent.glob("*.part")}
    assert len(carried) == 3
    for left, name in ((2, "2.part"), (1, "0.part"), (0, "1.part")):
        for path in sent.glob("*.part"):
            path.unlink()
        (sent / name).write_bytes(carried[name])
        assert len(packing.join(sent, kept, out)) == left
    assert [(out / path.name).read_bytes() for path in files] == [path.read_bytes() for path in files]
    (sent / "1.part").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"1.part is damaged; carry it again"):
        packing.join(sent, kept, out)
