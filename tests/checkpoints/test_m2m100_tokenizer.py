"""M2M-100 is published without tokenizer.json: ids and texts are those of transformers' Python tokenizer."""

import json
import random
import shutil
from pathlib import Path

import pytest
import tiny_checkpoint
import transformers
from helpers.project import ROOT
from num2words import num2words
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer
from tokenizers import Tokenizer
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

import txexport
from txexport.checkpoints.tokenizer_conversion import tokenizer_json
from txexport.errors import CheckpointError

LINES = [
    *(ROOT / "README.md").read_text("utf-8").splitlines(),
    *(
        num2words(37 * i, lang=lang)
        for lang in ("fr", "ru", "ar", "ja", "ko", "he", "vi")
        for i in range(200)
    ),
]
ALPHABET = "abcdefghij XYZ 0123 .,;:!?'-()  \t\u00a0\u3000éèàç€日本語ＡＢＣ①½\u200b🙂🇫🇷</>_`*#|Å▁"
CODES = {kind: [f"__{code}__" for code in codes] for kind, codes in FAIRSEQ_LANGUAGE_CODES.items()}


def train(file: Path, **settings) -> list[str]:
    """Write a SentencePiece model, and return its pieces without the special ones."""
    SentencePieceTrainer.train(
        sentence_iterator=iter(text for text in LINES if text.strip()),
        model_prefix=str(file.with_suffix("")),
        **{"vocab_size": 900, "model_type": "bpe", "minloglevel": 2} | settings,
    )
    model = SentencePieceProcessor(model_file=str(file))
    return [model.IdToPiece(i) for i in range(len(model)) if not (model.IsControl(i) or model.IsUnknown(i))]


def write(folder: Path, words: list[str], **settings) -> Path:
    """vocab.json of those words, and the settings of published checkpoints but for `settings`."""
    numbers = {word: i for i, word in enumerate(["<s>", "<pad>", "</s>", "<unk>", *words])}
    (folder / "vocab.json").write_text(json.dumps(numbers), encoding="utf-8")
    own = {"tokenizer_class": "M2M100Tokenizer", "additional_special_tokens": CODES["m2m100"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(own | settings), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> Path:
    """The files of a tokenizer of M2M-100's, as its checkpoints have them."""
    folder = tmp_path_factory.mktemp("m2m")
    return write(folder, [*train(folder / "sentencepiece.bpe.model"), "madeupword0000"])


@pytest.fixture(scope="module")
def pieces(many) -> list[str]:
    return list(json.loads((many / "vocab.json").read_text("utf-8")))[4:]


@pytest.fixture(scope="module")
def pair(many) -> tuple[Tokenizer, transformers.M2M100Tokenizer]:
    made = tokenizer_json(many, "m2m_100")
    assert made is not None
    return Tokenizer.from_str(made), transformers.M2M100Tokenizer.from_pretrained(many)


def texts() -> list[str]:
    """Real lines, odd texts, random letters, of scripts that the model knows and others."""
    rng = random.Random(0)
    blocks = [(0x20, 0x250), (0x370, 0x700), (0xE00, 0xE80), (0x4E00, 0x4F00), (0x1F300, 0x1F600)]
    odd = ["", " ", "  a  b\t", "</s> x", "a<unk>b", "<pad>", "<s>a", "__fr__ A cat.", "a __fr__b", "__xx__"]
    runs = [unit * count for unit in (*".-=aeo0*#", "ab", "na") for count in range(1, 30)]
    known = sorted({letter for line in LINES for letter in line})
    return [
        *(LINES + odd + runs),
        *("".join(rng.choices(ALPHABET, k=rng.randint(0, 40))) for _ in range(1500)),
        *("".join(rng.choices(known, k=rng.randint(0, 30))) for _ in range(1500)),
        *(
            "".join(chr(rng.randrange(*rng.choice(blocks))) for _ in range(rng.randint(0, 20)))
            for _ in range(1500)
        ),
    ]


def test_texts_have_the_original_s_ids(pair):
    made, original = pair
    for text in texts():
        assert made.encode(text).ids == original(text).input_ids, text
    assert made.encode("a", "b").ids == original("a", "b").input_ids


def test_ids_have_the_original_s_text(pair):
    made, original = pair
    rng, size = random.Random(0), len(original)
    assert size == made.get_vocab_size()
    for _ in range(1000):
        ids = rng.choices(range(size), k=rng.randint(0, 20))
        assert made.decode(ids) == original.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("kind", CODES)
def test_languages_have_the_original_s_ids(kind, many, pieces, tmp_path):
    folder = write(
        shutil.copytree(many, tmp_path / "in"),
        pieces,
        language_codes=kind,
        additional_special_tokens=CODES[kind],
    )
    original = transformers.M2M100Tokenizer.from_pretrained(folder)
    for token in CODES[kind]:
        language = token.strip("_")
        write(folder, pieces, language_codes=kind, additional_special_tokens=CODES[kind], src_lang=language)
        original.src_lang = language
        made = Tokenizer.from_str(tokenizer_json(folder, "m2m_100"))
        assert made.encode("A cat.").ids == original("A cat.").input_ids


def test_a_bundle_translates_between_them(many, tmp_path):
    folder, words = shutil.copytree(many, tmp_path / "in"), len(json.loads((many / "vocab.json").read_text()))
    ids = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    tiny_checkpoint.save(folder, "m2m_100", vocab_size=words + len(CODES["m2m100"]) + 8, **ids)
    (folder / "tokenizer.json").unlink()
    txexport.export(folder, tmp_path / "out", only="native")
    original = transformers.M2M100ForConditionalGeneration.from_pretrained(folder)
    tokenizer = transformers.M2M100Tokenizer.from_pretrained(folder, src_lang="fr")
    settings = {"max_new_tokens": 9, "num_beams": 1}
    expected = original.generate(
        **tokenizer(["deux cents"], return_tensors="pt"),
        forced_bos_token_id=tokenizer.get_lang_id("ja"),
        **settings,
    )
    bundle = txexport.load(tmp_path / "out", device="cpu")
    found = bundle.generate(["deux cents"], src_lang="fr", tgt_lang="ja", **settings)
    assert found == tokenizer.batch_decode(expected, skip_special_tokens=True)
    assert found == bundle.generate(["deux cents"], src_lang="__fr__", tgt_lang="__ja__", **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"language_codes": "m3"}, "language_codes is 'm3', expected m2m100 or wmt21"),
        ({"src_lang": "xx"}, "src_lang is 'xx', which is no language"),
        ({"unk_token": "[UNK]"}, r"unk_token is '\[UNK\]', expected <unk>"),
        ({"additional_special_tokens": CODES["m2m100"][::-1]}, "not the languages' in their order"),
    ],
    ids=str,
)
def test_other_settings_are_refused_by_name(settings, message, many, pieces, tmp_path):
    folder = write(shutil.copytree(many, tmp_path / "in"), pieces, **settings)
    with pytest.warns(UserWarning, match=message):
        assert tokenizer_json(folder, "m2m_100") is None


def test_pieces_without_a_number_are_refused(many, pieces, tmp_path):
    """The original reads them as unknown; here they could not be merged further."""
    folder = write(shutil.copytree(many, tmp_path / "in"), pieces[:300] + pieces[301:])
    with pytest.warns(UserWarning, match=r"lacks 1 pieces of .*sentencepiece\.bpe\.model"):
        assert tokenizer_json(folder, "m2m_100") is None


def test_words_that_the_original_looks_up_are_refused(many, pieces, tmp_path):
    folder = write(shutil.copytree(many, tmp_path / "in"), [*pieces, "☃☃"])
    with pytest.warns(UserWarning, match="has '☃☃', of letters that no piece has"):
        assert tokenizer_json(folder, "m2m_100") is None


@pytest.mark.parametrize(
    "settings",
    [
        {"model_type": "unigram"},
        {"add_dummy_prefix": False},
        {"normalization_rule_name": "identity"},
        {"split_by_whitespace": False},
        {"byte_fallback": True},
    ],
    ids=str,
)
def test_models_that_cut_texts_in_other_ways_are_told(settings, many, tmp_path):
    folder = shutil.copytree(many, tmp_path / "in")
    write(folder, train(folder / "sentencepiece.bpe.model", **settings))
    with pytest.warns(UserWarning, match="is no plain BPE model"):
        assert tokenizer_json(folder, "m2m_100") is None


def test_a_model_cut_short(many, tmp_path):
    folder = shutil.copytree(many, tmp_path / "in")
    file = folder / "sentencepiece.bpe.model"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match=r"sentencepiece\.bpe\.model is no SentencePiece model"):
        tokenizer_json(folder, "m2m_100")
