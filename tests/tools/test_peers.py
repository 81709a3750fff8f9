"""The page of other tools' exports is made from the recorded results."""

import json
import sys

import pytest
from helpers.project import ROOT

PEERS = ROOT / "tools/peers"


@pytest.fixture
def results() -> dict:
    return json.loads((PEERS / "results.json").read_text(encoding="utf-8"))


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(PEERS))
    import peers as module

    yield module
    for name in ("peers", "peers_page"):
        sys.modules.pop(name, None)


def test_the_page_is_that_of_the_results(results, peers):
    names = [model.name for model in peers.MODELS]
    page = peers.peers_page.page(results, names)
    assert page == (ROOT / "docs/reference/peers.md").read_text(encoding="utf-8")
    tools = [name for name in results if name != "judge"]
    assert sorted(tools) == sorted(peers.PEERS)
    assert all(list(results[name]["models"]) == names for name in tools)


def test_our_own_graphs_are_right_and_every_other_outcome_has_a_reason(results):
    assert {one["verdict"] for one in results["txexport"]["models"].values()} == {"right"}
    for tool, entry in results.items():
        for one in entry["models"].values() if tool != "judge" else ():
            assert (one["verdict"] == "right") != bool(one.get("reason"))


def test_a_reason_has_no_path_and_no_column(peers):
    reason = peers.plain("ValueError: /tmp/x/y/model.onnx | is wrong")
    assert reason == "ValueError: model.onnx / is wrong"
    assert len(peers.plain("x" * 500)) == 160
