"""The examples run."""

import json
import runpy
import shutil
import subprocess

import pytest
from helpers.project import ROOT

from txexport.runtime import load

EXAMPLES = ROOT / "examples"


def node_runtime() -> bool:
    """Tell whether Node and onnxruntime-node are installed beside the example."""
    return shutil.which("node") is not None and (EXAMPLES / "node/node_modules/onnxruntime-node").is_dir()


@pytest.mark.skipif(not node_runtime(), reason="needs Node and `npm install` in examples/node")
def test_node_generates_the_same_tokens(bundle_of):
    folder = bundle_of("gpt2")
    command = ["node", str(EXAMPLES / "node/generate.mjs"), str(folder), "5,6,7", "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = load(folder, device="cpu").generate_ids([[5, 6, 7]], max_new_tokens=10, eos_token_id=None)
    assert [int(token) for token in done.stdout.split(",")] == expected[0]


def test_totals_of_a_page_are_those_of_its_tables(tmp_path):
    """One model finds the tables, another reads what was cut out."""
    page = ROOT / "tests/data/receipts/bills.png"
    expected = json.loads((page.parent / "answers.json").read_text(encoding="utf-8"))["bills.png"]
    parts = runpy.run_path(str(EXAMPLES / "bills/read_page.py"))["read"](page, tmp_path)
    assert [answer for label, answer in parts if label == "table"] == [*expected.values()]
    assert {answer for label, answer in parts if label == "heading"} <= expected.keys()
