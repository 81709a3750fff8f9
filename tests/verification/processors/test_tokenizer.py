"""A bundle's tokenizer beside transformers': what differs is NOT EQUAL, with the text that shows it."""

import json
import random
import unicodedata
from importlib import util
from pathlib import Path

import pytest
import tiny_checkpoint
import tiny_tokenizers
from helpers.bundle_edits import relist
from helpers.tokenizer_folders import KINDS, settings_of, tokenizer_of

import txexport
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.verification.checks import CHECKPOINT, TOKENIZER
from txexport.verification.processors import original, texts
from txexport.verification.reports.facts import facts_line

ONLY = {"reference": "twin", "cases": [TOKENIZER]}


def read(path: Path) -> dict:
    return json.loads(path.read_text("utf-8"))


def write(path: Path, values: dict) -> None:
    path.write_text(json.dumps(values), "utf-8")


@pytest.fixture
def source(tmp_path) -> Path:
    """A model that fills masks, with a tokenizer of BERT's kind, as transformers saves it."""
    tiny_checkpoint.save(tmp_path / "source", "bert", "BertForMaskedLM")
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path / "source")
    return tmp_path / "source"


@pytest.fixture
def out(source, tmp_path) -> Path:
    txexport.export(source, tmp_path / "out", only="native")
    return tmp_path / "out"


def failure(out: Path, **options) -> str:
    """The message of the tokenizer's case, the only one that fails."""
    report = txexport.verify(out, **ONLY | options)
    [case] = report.failed
    assert (case.name, case.reference, report.verdict) == (TOKENIZER, CHECKPOINT, "NOT EQUAL")
    return str(case.exception)


def test_an_equal_one_says_over_how_much(out):
    report = txexport.verify(out, **ONLY)
    assert report.ok
    [case] = report.cases
    counts = {check.output: check.elements for check in case.checks}
    assert counts["texts"] > 350
    assert counts["pairs of texts"] > 300
    assert {"texts cut to 9 tokens", "texts cut to 17 tokens", "rows of ids as text"} < counts.keys()
    assert f"tokenizer: {sum(counts.values()):,} compared" in facts_line(report)
    assert " with its tokenizer (only 1 by name" in report.scope
    quick = txexport.verify(out, reference="twin", cases="quick")
    assert quick.ok
    [few] = [case for case in quick.cases if case.name == TOKENIZER]
    assert 50 < next(check.elements for check in few.checks if check.output == "texts") < 150


EDITS = {
    "lower case": lambda file: file["normalizer"].update(lowercase=False),
    "accents": lambda file: file["normalizer"].update(strip_accents=False),
    "Chinese characters": lambda file: file["normalizer"].update(handle_chinese_chars=False),
    "control characters": lambda file: file["normalizer"].update(clean_text=False),
    "a word": lambda file: file["model"]["vocab"].update(cat=file["model"]["vocab"]["dog"]),
    "the longest word": lambda file: file["model"].update(max_input_chars_per_word=40),
    "spaces before a mask": lambda file: file["added_tokens"][-1].update(lstrip=True),
    "a special token": lambda file: file["added_tokens"][-1].update(special=False),
    "segments": lambda file: [
        one.get("Sequence", one.get("SpecialToken")).update(type_id=0)
        for one in file["post_processor"]["pair"]
    ],
    "the end": lambda file: file["post_processor"]["single"].pop(),
    "a text's pieces": lambda file: file["decoder"].update(prefix="#"),
}


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("quick", [False, True])
def test_a_bundle_s_tokenizer_that_reads_otherwise(edit, quick, out):
    file = read(out / "tokenizer.json")
    EDITS[edit](file)
    write(out / "tokenizer.json", file)
    relist(out)
    if not quick:
        assert ", in transformers " in failure(out)
        return
    failed = {case.name for case in txexport.verify(out, reference="twin", cases="quick").failed}
    assert {TOKENIZER, "manifest and copied files"} <= failed


SETTINGS = {
    "the longest text": {"model_max_length": 20},
    "token types": {"model_input_names": ["input_ids", "attention_mask"]},
    "the side that is cut": {"truncation_side": "left"},
    "special tokens as text": {"split_special_tokens": True},
    "spaces of decoded text": {"clean_up_tokenization_spaces": True},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_the_bundle_s_alone(name, out):
    write(out / "tokenizer_config.json", read(out / "tokenizer_config.json") | SETTINGS[name])
    assert ", in transformers " in failure(relist(out))


def test_the_text_that_shows_it_is_named(out):
    file = read(out / "tokenizer.json")
    file["normalizer"]["lowercase"] = False
    write(out / "tokenizer.json", file)
    message = failure(relist(out))
    assert message.startswith("ids, from place 1 on, of 'Hello, world!': [")


# All classes are compared in tests/checkpoints; here a run of every test has one of each kind of model.
FIRST = {model: kind for kind, (model, _) in reversed(KINDS.items())}


@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[] if k in FIRST.values() else [pytest.mark.slow]) for k in KINDS],
)
def test_every_class_with_settings_that_contradict_its_file(kind, tmp_path):
    """Export's tokenizer is equal; the checkpoint's own file, copied by older versions, is not."""
    model, special = KINDS[kind]
    draw = random.Random(f"{kind} verified")
    tiny_checkpoint.save(tmp_path / "source", "bert", "BertModel")
    tokenizer_of(model, special).save(str(tmp_path / "source/tokenizer.json"))
    for name, values in settings_of(kind, special, draw).items():
        write(tmp_path / "source" / name, values)
    txexport.export(tmp_path / "source", tmp_path / "out", only="native")
    report = txexport.verify(tmp_path / "out", reference="twin", cases=[TOKENIZER])
    [case] = report.cases
    assert case.ok and case.checks, case.summary  # noqa: PT018
    own = (tmp_path / "source/tokenizer.json").read_bytes()
    if (tmp_path / "out/tokenizer.json").read_bytes() != own:
        (tmp_path / "out/tokenizer.json").write_bytes(own)
        assert ", in transformers " in failure(relist(tmp_path / "out"))


def test_a_bundle_without_one_is_equal(source, tmp_path):
    (source / "tokenizer.json").unlink()
    (source / "tokenizer_config.json").unlink()
    txexport.export(source, tmp_path / "out", only="native")
    report = txexport.verify(tmp_path / "out", reference="twin", cases="quick")
    assert report.ok
    assert "; not tried: tokenizer, no tokenizer there" in facts_line(report)
    assert "tokenizer" not in report.scope


def test_without_transformers_it_is_not_tried(out, monkeypatch):
    monkeypatch.setattr(
        original, "find_spec", lambda name: None if name == "transformers" else util.find_spec(name)
    )
    [case] = txexport.verify(out, **ONLY).cases
    assert case.skipped == "transformers is not installed"


def test_one_that_transformers_cannot_read_is_not_tried(source, tmp_path):
    write(source / "tokenizer_config.json", {"tokenizer_class": "SiglipTokenizer"})  # which reads a .model
    txexport.export(source, tmp_path / "out", only="native")
    [case] = txexport.verify(tmp_path / "out", **ONLY).cases
    assert case.skipped.startswith("transformers makes none of the checkpoint: ")


def test_texts_are_of_all_categories_and_the_same_each_time():
    found = texts.characters()
    numbers = range(texts.LAST)
    assert found.keys() == {unicodedata.category(chr(number)) for number in numbers} - {"Cs"}
    again = [texts.texts(["[MASK]"], ["word"], quick=quick) for quick in (True, False, True)]
    assert again[0] == again[2] != again[1]
    assert len(again[0]) < 100 < 350 < len(again[1])
    assert all(text.encode() is not None for text in again[1])
    assert any(text.startswith(" ") and text.endswith(" ") for text in again[1])
    assert max(map(len, again[1])) > 10_000


def test_a_checkpoint_without_a_model_type_is_read_by_the_bundle_s(source, tmp_path):
    config = read(source / "config.json")
    write(source / "config.json", {name: value for name, value in config.items() if name != "model_type"})
    checkpoint = Checkpoint(source)
    with original.original("AutoTokenizer", checkpoint, "bert") as theirs:
        assert theirs("the cat")["input_ids"]
