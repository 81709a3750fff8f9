"""Checkpoints published without a tokenizer.json, as OPUS-MT's are: texts and ids as in transformers."""

import json
import random
import shutil
import sys
from pathlib import Path

import pytest
import tiny_checkpoint
import tiny_tokenizers
import transformers
from click.testing import CliRunner
from helpers import sounded
from helpers.project import ROOT
from num2words import num2words
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer

import txexport
from txexport.checkpoints.tokenizer_conversion import tokenizer_json
from txexport.cli.main import main
from txexport.errors import CheckpointError

ENGLISH = [
    line
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/contributing/*.md")))
    for line in path.read_text("utf-8").splitlines()
]
PLAIN = [text for text in ENGLISH if "───" not in text and "---" not in text]  # with several tokenisations
FRENCH = [*(num2words(37 * i, lang="fr") for i in range(500)), *["Où est l'été ? À ça, « c'est ici »."] * 5]
ALPHABET = "abcdefghij XYZ 0123 .,;:!?'-()  \t\u00a0\u3000éèàç€日本語ＡＢＣ①½ﬁ\u200b🙂🇫🇷</>_`*#|Å"


def train(file: Path, texts: list[str], size: int, **settings) -> list[str]:
    """Write a SentencePiece model, and return its pieces without the special ones."""
    SentencePieceTrainer.train(
        sentence_iterator=iter(text for text in texts if text.strip()),
        model_prefix=str(file.with_suffix("")),
        vocab_size=size,
        minloglevel=2,
        **settings,
    )
    file.with_suffix(".model").rename(file)
    model = SentencePieceProcessor(model_file=str(file))
    return [model.IdToPiece(i) for i in range(len(model)) if not (model.IsControl(i) or model.IsUnknown(i))]


def number(folder: Path, words: list[str]) -> None:
    """vocab.json of those words, each once."""
    numbered = {word: i for i, word in enumerate(dict.fromkeys(words))}
    (folder / "vocab.json").write_text(json.dumps(numbered), encoding="utf-8")


@pytest.fixture(scope="module")
def opus(tmp_path_factory) -> Path:
    """A checkpoint with the files of OPUS-MT's."""
    folder = tmp_path_factory.mktemp("opus")
    pieces = train(folder / "source.spm", ENGLISH, 500) + train(folder / "target.spm", FRENCH, 70)
    number(folder, ["</s>", "<unk>", ">>fra<<", *pieces, "<pad>"])
    words = len(json.loads((folder / "vocab.json").read_text("utf-8")))
    ids = {"pad_token_id": words - 1, "decoder_start_token_id": words - 1, "eos_token_id": 0}
    tiny_checkpoint.save(folder, "marian", vocab_size=words, decoder_vocab_size=words, **ids)
    (folder / "tokenizer.json").unlink()
    settings = {"tokenizer_class": "MarianTokenizer", "source_lang": "en", "target_lang": "fr"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return folder


@pytest.fixture(scope="module")
def pair(opus) -> tuple[Tokenizer, transformers.MarianTokenizer]:
    made = tokenizer_json(opus)
    assert made is not None
    return Tokenizer.from_str(made), transformers.MarianTokenizer.from_pretrained(opus)


def texts() -> list[str]:
    """Real lines, odd texts, and random letters."""
    rng = random.Random(0)
    odd = [
        "",
        " ",
        "  a  b\t",
        "</s> x",
        "a<unk>b",
        "<pad>",
        ">>fra<< A cat.",
        ">>fra<<A cat",
        "é",
        "éé",
        "né è",
    ]
    return PLAIN + odd + ["".join(rng.choices(ALPHABET, k=rng.randint(0, 40))) for _ in range(2000)]


def test_marian_s_texts_have_the_original_s_ids(pair):
    made, original = pair
    for text in texts():
        assert made.encode(text).ids == original(text).input_ids, text
    assert {"é", "<unk>", "f"} <= {word for text in texts() for word in made.encode(text).tokens}


def test_marian_s_ids_have_the_original_s_text(pair):
    made, original = pair
    rng = random.Random(0)
    for _ in range(500):
        ids = rng.choices(range(len(original.get_vocab())), k=rng.randint(0, 20))
        assert made.decode(ids) == original.decode(ids, skip_special_tokens=True)


def test_marian_translates_text(opus, tmp_path):
    txexport.export(opus, tmp_path / "out")
    bundle = txexport.load(tmp_path / "out", device="cpu")
    original = transformers.MarianMTModel.from_pretrained(opus)
    tokenizer = transformers.MarianTokenizer.from_pretrained(opus)
    asked = ["The bundle holds it.", ">>fra<< Every number"]
    settings = {"max_new_tokens": 12, "num_beams": 2}
    expected = original.generate(**tokenizer(asked, return_tensors="pt", padding=True), **settings)
    assert bundle.generate(asked, **settings) == tokenizer.decode(expected, skip_special_tokens=True)
    assert "".join(bundle.stream(asked[0], max_new_tokens=12, num_beams=1)) == bundle.generate(
        asked[0], max_new_tokens=12, num_beams=1
    )
    report = txexport.verify(tmp_path / "out", cases=["sentences", "manifest and copied files"])
    assert report.ok
    tried = [case for case in report.cases if case.name == "sentences" and case.skipped is None]
    assert [case.graphs for case in tried] == ["native", "native", "hub"]
    made = tmp_path / "out/tokenizer.json"
    other = "tokenizer.json is not the file that export makes of the checkpoint"
    for spoil, said in ((lambda: made.write_text("{}"), other), (made.unlink, "tokenizer.json is missing")):
        spoil()
        failed = txexport.verify(tmp_path / "out", cases=["manifest and copied files"]).failed
        assert failed[0].exception == f"{said}"


def changed(source: Path, folder: Path, **files: object) -> Path:
    """A copy of `source` with other values in its files."""
    shutil.copytree(source, folder)
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def test_pieces_without_a_number_are_told(opus, tmp_path):
    words = json.loads((opus / "vocab.json").read_text("utf-8"))
    source = SentencePieceProcessor(model_file=str(opus / "source.spm"))
    gone = max((word for word in words if source.PieceToId(word) > 2), key=len)
    folder = changed(opus, tmp_path / "fewer")
    number(folder, [word for word in words if word != gone])
    with pytest.warns(UserWarning, match=r"vocab\.json lacks 1 of the pieces of .*source\.spm"):
        made = Tokenizer.from_str(tokenizer_json(folder))
    text = gone.replace("▁", " ")
    assert made.decode(made.encode(text).ids) == text.strip()


def test_what_one_tokenizer_cannot_hold_is_told(opus, tmp_path):
    folder = changed(opus, tmp_path / "two", tokenizer_config={"separate_vocabs": True})
    with pytest.warns(UserWarning, match="tokenizer.json cannot hold two vocabularies"):
        assert tokenizer_json(folder) is None
    (folder / "tokenizer_config.json").unlink()
    words = json.loads((opus / "vocab.json").read_text("utf-8"))
    (folder / "vocab.json").write_text(json.dumps(words | {"cat": 3}))
    with pytest.warns(UserWarning, match=r"vocab\.json gives two tokens one id"):
        assert tokenizer_json(folder) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "bpe"},
        {"remove_extra_whitespaces": False},
        {"add_dummy_prefix": False},
        {"normalization_rule_name": "identity"},
        {"treat_whitespace_as_suffix": True},
        {"split_by_whitespace": False},
        {"user_defined_symbols": ["the"]},
        {"byte_fallback": True},
    ],
    ids=str,
)
def test_models_that_cut_texts_in_other_ways_are_told(settings, opus, tmp_path):
    folder = changed(opus, tmp_path / "other")
    train(folder / "source.spm", ENGLISH, 700, **settings)
    with pytest.warns(UserWarning, match=r"source\.spm is no plain unigram model"):
        assert tokenizer_json(folder) is None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["a"], "vocab.json"),
        ({"a": 0}, "has no ids of </s>, <unk>, <pad>"),
        ({"</s>": 0, "<unk>": [1], "<pad>": 2}, "has values other than ids from 0 to 10,000,000"),
        ({"</s>": 0, "<unk>": 1, "<pad>": -1}, "has values other than ids from 0"),
    ],
)
def test_a_vocabulary_that_is_none(words, said, opus, tmp_path):
    with pytest.raises(CheckpointError, match=said):
        tokenizer_json(changed(opus, tmp_path / "odd", vocab=words))


def test_numbers_may_have_gaps(opus, tmp_path, pair):
    words = json.loads((opus / "vocab.json").read_text("utf-8"))
    target = SentencePieceProcessor(model_file=str(opus / "target.spm"))
    source = SentencePieceProcessor(model_file=str(opus / "source.spm"))
    only = next(word for word in words if target.PieceToId(word) > 2 and source.PieceToId(word) <= 2)
    folder = changed(opus, tmp_path / "gap", vocab={word: i for word, i in words.items() if word != only})
    made = Tokenizer.from_str(tokenizer_json(folder))
    assert [made.encode(text).ids for text in ENGLISH] == [pair[0].encode(text).ids for text in ENGLISH]


@pytest.mark.parametrize(("size", "said"), [(-1, "is no SentencePiece model"), (0, "has no pieces")])
def test_a_model_cut_short(size, said, opus, tmp_path):
    folder = changed(opus, tmp_path / "short")
    (folder / "source.spm").write_bytes((opus / "source.spm").read_bytes()[:size])
    with pytest.raises(CheckpointError, match=rf"source\.spm {said}.* copy it again"):
        txexport.export(folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_vocabularies_are_read_by_transformers(tmp_path):
    folder = tmp_path / "bert"
    tiny_checkpoint.save(folder, "bert")
    (folder / "tokenizer.json").unlink()
    words = sorted((vocab := tiny_tokenizers.wordpiece().get_vocab()), key=vocab.get)
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        '{"do_lower_case": true, "tokenizer_class": "BertTokenizer"}'
    )
    txexport.export(folder, tmp_path / "out")
    made = txexport.load(tmp_path / "out", device="cpu").text
    for text in ("The cat lives in Zürich, far!", "東京 umbrella"):
        assert made.encode([text])[0].ids == tiny_tokenizers.wordpiece()(text).input_ids


def test_pieces_of_t5_are_read_by_transformers(tmp_path):
    folder = tmp_path / "mt5"
    tiny_checkpoint.save(folder, "mt5", vocab_size=700)
    (folder / "tokenizer.json").unlink()
    train(folder / "spiece.model", ENGLISH, 500, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    txexport.export(folder, tmp_path / "out")
    original = SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    made = txexport.load(tmp_path / "out", device="cpu").text
    for text in PLAIN[:50]:
        assert made.encode([text])[0].ids == [*original.EncodeAsIds(text), 1]


@pytest.mark.parametrize(
    ("model_type", "files", "said"),
    [
        ("gpt2", {"vocab.json": '{"a": 0', "merges.txt": ""}, "transformers could not make a tokenizer of"),
        (
            "bert",
            {"vocab.txt": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"},
            "no vocabulary that its tokenizer reads",
        ),
        (
            "bert",
            {"tokenizer_config.json": "[]", "vocab.txt": "a"},
            "transformers could not make a tokenizer of",
        ),
    ],
    ids=["a damaged file", "special tokens alone", "a list"],
)
def test_vocabularies_that_are_none(model_type, files, said, checkpoint_of, tmp_path):
    folder = shutil.copytree(checkpoint_of(model_type), tmp_path / "in")
    (folder / "tokenizer.json").unlink()
    for name, text in files.items():
        (folder / name).write_text(text)
    with pytest.warns(UserWarning, match=said):
        txexport.export(folder, tmp_path / "out")
    assert not (tmp_path / "out/tokenizer.json").exists()


def test_of_no_vocabulary_nothing_is_made(tmp_path, monkeypatch):
    """And transformers, which imports PyTorch, is not imported."""
    monkeypatch.setattr(
        "txexport.checkpoints.tokenizer_conversion._by_transformers", lambda folder: pytest.fail("asked")
    )
    (tmp_path / "config.json").write_text("{}")
    assert tokenizer_json(tmp_path) is None


def test_without_transformers_nothing_is_made(tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nthe\ncat\n")
    monkeypatch.setitem(sys.modules, "transformers", None)
    assert tokenizer_json(tmp_path) is None


def test_models_that_read_no_text_want_no_tokenizer(checkpoint_of, tmp_path):
    folder = shutil.copytree(checkpoint_of("vit"), tmp_path / "in")
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("\n".join(tiny_tokenizers.wordpiece().get_vocab()), encoding="utf-8")
    result = CliRunner().invoke(main, ["export", str(folder), str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "token" not in result.stderr  # it has no image processor either, and says so
    assert not (tmp_path / "out/tokenizer.json").exists()


def test_mistral_s_tekken_json_is_converted(tmp_path):
    """As published with Voxtral; files of before 2025 list no special tokens, which mistral-common knows."""
    sounded.save_voxtral(tmp_path)
    converted, original = tokenizer_json(tmp_path), transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert converted is not None
    for text in ["", "<s>[INST]the cat, at 12 é[/INST]", " the  cat\n\n[BEGIN_AUDIO][AUDIO]漢"]:
        assert Tokenizer.from_str(converted).encode(text).ids == original(text).input_ids
    file = tmp_path / "tekken.json"
    values = json.loads(file.read_text())
    del values["special_tokens"]
    file.write_text(json.dumps(values))
    with pytest.warns(UserWarning, match="transformers could not make a tokenizer"):
        assert tokenizer_json(tmp_path) is None
