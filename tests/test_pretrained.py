"""The checkpoints that are shipped: proved, and as good through ONNX as their cards say."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from txmodels.training import metrics

import txexport

FOLDER = Path(__file__).parent.parent / "models/pretrained"


@pytest.fixture(scope="module")
def bundle_of(tmp_path_factory):
    """A function from a checkpoint's name to its bundle."""
    made: dict[str, Path] = {}

    def get(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp("pretrained") / name
            txexport.export(FOLDER / name, made[name])
        return made[name]

    return get


def heldout(name: str) -> list[dict]:
    return [
        json.loads(line)
        for line in (FOLDER / name / "heldout.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def told(name: str) -> str:
    """The score on heldout.jsonl that the card tells."""
    card = (FOLDER / name / "README.md").read_text(encoding="utf-8")
    return re.search(r"^\|[^|]* on heldout.jsonl[^|]*\| (\S+) \|$", card, re.MULTILINE)[1]


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir() if path.suffix != ".part"))
def test_proved_equal_to_the_original(name, bundle_of):
    report = txexport.verify(bundle_of(name))
    assert report.ok, report.failed
    assert {case.reference for case in report.cases if case.checks} == {"checkpoint", "twin", "transformers"}


def test_together_they_are_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 12e6


def test_translator_says_what_its_card_says(bundle_of):
    examples = heldout("number-translator")
    with txexport.load(bundle_of("number-translator")) as model:
        said = model.generate([example["english"] for example in examples])
    exact = metrics.exact_match([example["french"] for example in examples], said)
    assert f"{exact:.2%}" == told("number-translator")
    assert exact >= 0.99


def test_completer_is_as_sure_as_its_card_says(bundle_of):
    with txexport.load(bundle_of("python-completer")) as model:
        scores = model.score([example["text"] for example in heldout("python-completer")])
    found = metrics.perplexity(np.concatenate([score.log_probs for score in scores]))
    assert found == pytest.approx(float(told("python-completer")), abs=0.0011)
