"""ExportBench: entries are what they say, and equal for a seed; outcomes are counted; the page is theirs."""

import filecmp
import json
from dataclasses import replace

import pytest
from export_bench import judge, page, score
from export_bench.entry import EQUAL, WRONG
from export_bench.make import ENTRIES, UnjudgedError, make
from export_bench.rows_healthy import ROWS as HEALTHY
from export_bench.runs import PLAIN
from export_bench.sources import SOURCES
from helpers.project import ROOT

RESULTS = ROOT / "tools/export_bench/results.json"
NAMES = ("bert-renamed", "gpt2-past-forgotten", "t5-cross-mask-ignored-with-past")
FAKE = """
import os
from worker import UnjudgedError, serve

def judge(folder):
    if folder.name.startswith("gpt2"):
        raise UnjudgedError("no decoders")
    if folder.name.startswith("t5"):
        os._exit(3)
    return None if folder.name == "bert-renamed" else "differs"

serve(judge, {"fake": "1"})
"""


@pytest.fixture(scope="module")
def entries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("entries")
    make(folder, NAMES)
    return folder


def test_a_seed_makes_the_same_bytes_twice(entries, tmp_path):
    make(tmp_path, NAMES[:2])
    for name in NAMES[:2]:
        files = [str(one.relative_to(entries / name)) for one in (entries / name).rglob("*") if one.is_file()]
        _, different, missing = filecmp.cmpfiles(entries / name, tmp_path / name, files, shallow=False)
        assert not different
        assert not missing
        assert {"entry.json", "export/model.onnx", "checkpoint/model.safetensors"} <= set(files)


def test_an_entry_states_its_verdict_and_the_input_that_shows_it(entries):
    records = score.entries_of(entries)
    assert [records[name]["verdict"] for name in NAMES] == [EQUAL, WRONG, WRONG]
    wrong = records["gpt2-past-forgotten"]
    assert wrong["shown"] == {"lengths": [8], "pieces": [5, 1, 1, 1]}
    assert float(wrong["difference"]) > judge.WRONG


@pytest.mark.parametrize(
    ("name", "changed"),
    [("bert-mask-ignored", {"shown": PLAIN}), ("gpt2-past-forgotten", {"shown": None})],
)
def test_an_entry_that_is_not_what_it_says_is_an_error(name, changed, tmp_path, monkeypatch):
    """A text without padding does not show that the mask is ignored; a wrong export is not right."""
    monkeypatch.setitem(ENTRIES, name, replace(ENTRIES[name], **changed))
    with pytest.raises(UnjudgedError, match=f"{name} is stated to be"):
        make(tmp_path, [name])


def test_every_source_is_among_the_right_exports():
    assert {one.source for one in HEALTHY} == set(SOURCES)
    assert len(ENTRIES) == len({*ENTRIES}) > 160


def test_scores_count_what_a_checker_said(entries, tmp_path, monkeypatch):
    """An entry at which the checker's process ends counts as an alarm, and the others are still judged."""
    (tmp_path / "fake.py").write_text(FAKE)
    (tmp_path / "worker.py").write_text((score.FOLDER / "worker.py").read_text())
    monkeypatch.setattr(score, "FOLDER", tmp_path)
    monkeypatch.setitem(score.CHECKERS, "fake", score.Checker("fake", "fake", "None."))
    results = tmp_path / "results.json"
    score.score(entries, results, ["fake"])
    counted = json.loads(results.read_text())["checkers"]["fake"]
    assert {key: one for key, one in counted.items() if isinstance(one, int)} == {
        "found": 1,
        "missed": 0,
        "wrong_unjudged": 1,
        "accepted": 1,
        "false_alarms": 0,
        "right_unjudged": 0,
    }
    assert counted["outcomes"]["t5-cross-mask-ignored-with-past"]["why"] == score.CRASHED
    assert counted["by_kind"]["padding"] == [1, 1]
    assert counted["versions"] == {"fake": "1"}


def test_a_checker_that_does_not_start_is_an_error(entries, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text("import no_such_module")
    monkeypatch.setattr(score, "FOLDER", tmp_path)
    with pytest.raises(RuntimeError, match="no_such_module"):
        score.run(score.Checker("broken", "broken", ""), [entries / NAMES[0]])


@pytest.mark.parametrize(
    "name",
    [
        "onnx.checker",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("torch.onnx", "transformers")),
    ],
)
def test_checkers_that_need_no_environment_accept_a_right_export(name, entries):
    outcome = score.run(score.CHECKERS[name], [entries / NAMES[0]])["outcomes"][NAMES[0]]
    assert outcome["outcome"] == score.ACCEPTED, outcome


def test_the_page_is_that_of_the_recorded_results():
    results = json.loads(RESULTS.read_text())
    assert (ROOT / "docs/reference/exportbench.md").read_text() == page.page(results)
    assert set(results["entries"]) == set(ENTRIES)
    for name, one in results["entries"].items():
        assert (one["verdict"], one["what"]) == (ENTRIES[name].verdict, ENTRIES[name].what)


def test_txexport_finds_every_wrong_export():
    outcomes = json.loads(RESULTS.read_text())["checkers"]["txexport verify"]["outcomes"]
    wrong = [name for name, one in ENTRIES.items() if one.verdict == WRONG]
    assert [name for name in wrong if outcomes[name]["outcome"] != score.ALARM] == []


def test_txexport_takes_no_right_export_for_wrong():
    outcomes = json.loads(RESULTS.read_text())["checkers"]["txexport verify"]["outcomes"]
    right = [name for name, one in ENTRIES.items() if one.verdict == EQUAL]
    assert [name for name in right if outcomes[name]["outcome"] != score.ACCEPTED] == []


@pytest.mark.slow
def test_every_entry_can_be_made(tmp_path):
    assert len(make(tmp_path)) == len(ENTRIES)
