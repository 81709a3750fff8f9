"""Tokenizers that transformers has in Python alone: the same ids for thousands of texts, or an error."""

import json
import random
import shutil
from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer

import txexport
from txexport.checkpoints.tokenizer_conversion import tokenizer_json
from txexport.errors import CheckpointError

AMINO = [*"LAGVSERTIDPKQNFYMHWCXBUZO.-"]
WORDS = ["<cls>", "<pad>", "<eos>", "<unk>", *AMINO, "<null_1>", "<mask>"]
ALPHABET = [*"abLAGVSERTX zZ \t\n\u00a0\u3000\x85éç日🙂<>/._-|0", "\u200b", "ﬁ", "Å"]
MARKS = ["<mask>", "<cls>", "</s>", "<pad>", "<extra_id_3>", "<extra_id_124>", "<unk>", "<eos>", "<null_1>"]


def odd_texts(count: int, more: str = "") -> list[str]:
    chance, pieces = random.Random(0), [*ALPHABET, *MARKS, *more]
    return ["".join(chance.choices(pieces, k=chance.randrange(20))) for _ in range(count)]


@pytest.fixture
def esm(tmp_path) -> Path:
    """The files of a tokenizer of ESM's, as its checkpoints have them."""
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    transformers.EsmTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    return tmp_path


def test_esm(esm):
    original, made = transformers.EsmTokenizer.from_pretrained(esm), Tokenizer.from_str(tokenizer_json(esm))
    for text in odd_texts(3000, "\x1c\x1f"):
        ids = original(text).input_ids
        assert made.encode(text).ids == ids, text
        assert made.decode(ids, skip_special_tokens=False) == original.decode(ids), text
    pair = ("LAG Z", "V?<mask>")
    assert made.encode(*pair).ids == original(*pair).input_ids


def test_byt5(tmp_path):
    original = transformers.ByT5Tokenizer()
    original.save_pretrained(tmp_path)
    made = Tokenizer.from_str(tokenizer_json(tmp_path))
    for text in odd_texts(3000):
        if not text.rstrip().endswith("</s>"):
            ids = original(text).input_ids
            assert made.encode(text).ids == ids, text
            expected = original.decode(ids, skip_special_tokens=True)
            assert made.decode(ids) == expected, text
    assert made.encode("a", "b").ids == original("a", "b").input_ids
    assert made.get_vocab_size() == 384
    assert made.encode("a</s>").ids == [*original("a").input_ids, 1]  # the name in the docstring


def test_an_old_folder_tells_by_its_family(esm, checkpoint_of, tmp_path):
    """Without tokenizer settings; and the bundle reads texts."""
    source = shutil.copytree(checkpoint_of("esm"), tmp_path / "in")
    (source / "tokenizer.json").unlink()
    shutil.copy(esm / "vocab.txt", source)
    txexport.export(source, tmp_path / "out", only="native")
    text = txexport.load(tmp_path / "out", device="cpu").text
    original = transformers.EsmTokenizer(str(esm / "vocab.txt"))
    assert text.encode(["LAG<mask>VJ"])[0].ids == original("LAG<mask>VJ").input_ids


@pytest.mark.parametrize(
    ("settings", "words", "message"),
    [
        (
            {"tokenizer_class": "ByT5Tokenizer", "eos_token": "<end>"},
            None,
            "eos_token is '<end>', expected ByT5",
        ),
        ({"tokenizer_class": "ByT5Tokenizer", "extra_ids": 7}, None, "expected ByT5's own <extra_id_0> to"),
        (
            {"tokenizer_class": "EsmTokenizer"},
            ["<cls>", "<eos>", "<unk>", "L", "L"],
            "has a token twice, or an",
        ),
        ({"tokenizer_class": "EsmTokenizer"}, ["<cls>", "<unk>", "L"], "lacks '<eos>', so no tokenizer.json"),
    ],
)
def test_others_are_refused_by_what_they_are(settings, words, message, tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    if words:
        (tmp_path / "vocab.txt").write_text("\n".join(words))
    with pytest.warns(UserWarning, match=message):
        assert tokenizer_json(tmp_path) is None


def test_words_that_are_no_text(esm):
    (esm / "vocab.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(CheckpointError, match=r"vocab\.txt cannot be read as text: "):
        tokenizer_json(esm)


@pytest.mark.parametrize(
    ("model_type", "kind", "files", "message"),
    [
        (
            "roberta",
            "PhobertTokenizer",
            ["bpe.codes", "vocab.txt"],
            "PhobertTokenizer spells tokens differently",
        ),
        (
            "biogpt",
            "BioGptTokenizer",
            ["vocab.json", "merges.txt"],
            "BioGptTokenizer splits texts with the rules of Moses",
        ),
        (
            "biogpt",
            None,
            ["vocab.json", "merges.txt"],
            "BioGptTokenizer splits texts with the rules of Moses",
        ),
        ("bert", "BertJapaneseTokenizer", ["vocab.txt"], "BertJapaneseTokenizer splits texts with MeCab"),
        ("blenderbot-small", None, ["vocab.json"], "BlenderbotSmallTokenizer spells tokens differently"),
        ("xlm", None, ["vocab.json"], "XLMTokenizer splits texts with the rules of Moses"),
        ("flaubert", None, ["vocab.json"], "FlaubertTokenizer splits texts with the rules of Moses"),
    ],
)
def test_a_tokenizer_of_python_alone_is_named(model_type, kind, files, message, tmp_path):
    """And the message does not advise to install what would not help."""
    for name in files:
        (tmp_path / name).write_text("{}")
    if kind is not None:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": kind}))
    with pytest.warns(UserWarning, match=f"{message}.*, in Python only, so no tokenizer.json can be made of"):
        assert tokenizer_json(tmp_path, model_type) is None


def test_any_other_tokenizer_of_python_alone_is_named(tmp_path):
    """As CANINE's, of a family that is not supported."""
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[QUESTION]\na\n.\n")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "CanineTokenizer"}))
    with pytest.warns(
        UserWarning, match="CanineTokenizer exists only in Python, so no tokenizer.json can be made"
    ):
        assert tokenizer_json(tmp_path) is None
