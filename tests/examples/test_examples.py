"""The examples run."""

import json
import runpy
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers import pictured_families
from helpers.project import ROOT

from txexport.exporter import export
from txexport.runtime import load
from txexport.verification.clients.process import CLIENTS

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


def write_words(file: Path) -> None:
    """Let each token be text: onnxruntime-genai ends a text at a byte that is none."""
    tokenizer = json.loads(file.read_text())
    known = tokenizer["model"]["vocab"].items()
    readable = {token: index for token, index in known if token.replace("Ġ", "").isascii()}
    named = {f"w{index}": index for token, index in known if token not in readable}
    tokenizer["model"]["vocab"] = readable | named
    file.write_text(json.dumps(tokenizer))


@pytest.mark.skipif(CLIENTS["genai"].missing() is not None, reason="needs onnxruntime-genai")
@pytest.mark.parametrize("count", [0, 2])
def test_onnxruntime_genai_answers_about_images(count, tmp_path):
    family, image = "qwen2_5_vl", ROOT / "docs/pictures/street.png"
    pictured_families.save(tmp_path / "checkpoint", family)
    write_words(tmp_path / "checkpoint/tokenizer.json")
    export(tmp_path / "checkpoint", tmp_path / "out")
    prompt = f"user: {pictured_families.BEGINNING[family] * count} look at the cat assistant:"
    as_read = f"<s>{prompt}</s>"  # by the tokenizer of this test
    python, example = CLIENTS["genai"].python(), EXAMPLES / "genai/ask.py"
    command = [str(python), str(example), str(tmp_path / "out"), as_read, *[str(image)] * count]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    model = load(tmp_path / "out", device="cpu")
    expected = model.generate(prompt, images=[image] * count or None, max_new_tokens=100)
    assert expected
    assert done.stdout == f"{expected}\n"
