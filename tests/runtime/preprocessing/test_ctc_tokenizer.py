"""Texts of CTC's token ids against Wav2Vec2CTCTokenizer, ParakeetTokenizer and decoders of type CTC."""

import json
import random
from itertools import pairwise

import pytest
import transformers
from helpers.speech import LETTERS, PIECES, save_piece_tokenizer
from tokenizers import decoders

from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.tasks.ctc_stream import GrowingTranscript
from txexport.runtime.tasks.transcript import joined

SETTINGS = {
    "as it is": {},
    "lower case": {"do_lower_case": True},
    "tidy": {"clean_up_tokenization_spaces": True},
    "another delimiter": {"word_delimiter_token": "B", "replace_word_delimiter_char": "-"},
    "another blank": {"pad_token": "A", "unk_token": "C"},
}


def save(folder, values=LETTERS, **settings):
    """transformers' own tokenizer, saved in `folder`."""
    vocabulary = values if isinstance(values, dict) else {text: i for i, text in enumerate(values)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    tokenizer = transformers.Wav2Vec2CTCTokenizer(str(folder / "vocab.json"), **settings)
    tokenizer.save_pretrained(folder)
    return tokenizer


def rows(count: int) -> list[list[int]]:
    """Ids in runs, among them a few beyond the vocabulary."""
    draw = random.Random(0)
    return [
        [],
        *([token for token in draw.choices(range(count + 3), k=30) for _ in range(2)] for _ in range(50)),
    ]


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_texts_equal_the_original(settings, tmp_path):
    original = save(tmp_path, (*LETTERS, "NG", ".", "'S", "Ä"), **settings)
    tokenizer = CTCTokenizer(tmp_path)
    for row in rows(len(LETTERS) + 4):
        assert tokenizer.decode(row) == original.decode(row), row


def test_a_language_of_several(tmp_path):
    vocabularies = {"eng": {text: i for i, text in enumerate(LETTERS)}}
    vocabularies["fra"] = {text: i for i, text in enumerate([*LETTERS[:5], *reversed(LETTERS[5:])])}
    for language in vocabularies:
        original = save(tmp_path, vocabularies, target_lang=language)
        for row in rows(len(LETTERS)):
            assert CTCTokenizer(tmp_path).decode(row) == original.decode(row), row


SPACED = [piece.replace("▁", " ") for piece in PIECES]
SENTENCEPIECE = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(content=" ", left=1)]
)
TIDY = {
    "clean_up_tokenization_spaces": True,
    "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output": True,
}
GENERIC = "PreTrainedTokenizerFast"
# Arguments of save_piece_tokenizer.
KINDS = {
    "Metaspace": {},
    "Metaspace, never first": {"decoder": decoders.Metaspace(prepend_scheme="never")},
    "sentencepiece's": {"decoder": SENTENCEPIECE},
    "omniASR's": {"decoder": decoders.Fuse(), "pieces": SPACED},
    "tidy": TIDY,
    "tidy only for others": {"clean_up_tokenization_spaces": True},
    "another blank": {"pad": "[PAD]"},
    "a decoder of CTC": {"kind": GENERIC, "decoder": decoders.CTC(word_delimiter_token="▁")},
    "an untidy one": {
        "kind": GENERIC,
        "decoder": decoders.CTC(pad_token="▁the", word_delimiter_token="s", cleanup=False),
    },
}


def spaced_rows(count: int) -> list[list[int]]:
    """`rows`, and some with many spaces and quotes."""
    draw = random.Random(1)
    few = [PIECES.index(piece) for piece in ("▁", "▁▁", "'", ".", "n't", "▁a", "s", "<unk>")]
    return rows(count) + [draw.choices([*few, len(PIECES)], k=20) for _ in range(100)]


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_texts_of_pieces_equal_the_original(options, tmp_path):
    save_piece_tokenizer(tmp_path, **options)
    original, tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path), CTCTokenizer(tmp_path)
    within = options.get("kind") == GENERIC  # its decoder joins tokens across ids that it does not know
    ids = spaced_rows(len(PIECES) - 2 if within else len(PIECES))
    texts = [tokenizer.decode(row) for row in ids]
    assert texts == [original.decode(row) for row in ids]
    assert len({*texts}) > 100


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_texts_and_words_grow_wherever_the_ids_are_cut(options, tmp_path):
    save_piece_tokenizer(tmp_path, **options)
    tokenizer, draw = CTCTokenizer(tmp_path), random.Random(2)
    for row in spaced_rows(len(PIECES)):
        growing = GrowingTranscript(tokenizer, (1, 1))
        cuts = [0, *sorted(draw.choices(range(len(row) + 1), k=4)), len(row)]
        parts = [growing.add(row[a:b], [-1.0] * (b - a)) for a, b in pairwise(cuts)]
        transcript = joined([*parts, growing.add([], [], last=True)])
        assert transcript.text == tokenizer.decode(row), row
        assert [(word.text, word.start, word.end) for word in transcript.words] == tokenizer.words(row)
        assert "".join(word.text for word in transcript.words) == tokenizer.raw(row).replace(" ", "")


@pytest.mark.parametrize("named", [True, False])
def test_the_class_of_a_model_type(named, tmp_path):
    """ParakeetTokenizer, also by the name of its former class, is that of Parakeet if none is named."""
    save_piece_tokenizer(tmp_path)
    path = tmp_path / "tokenizer_config.json"
    settings = json.loads(path.read_text())
    settings["tokenizer_class"] = "ParakeetTokenizerFast" if named else None
    path.write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "wav2vec2" if named else "parakeet_ctc"}))
    assert CTCTokenizer(tmp_path).decode([3, 3, len(PIECES), 3]) == "a a"


@pytest.mark.parametrize(
    ("options", "settings", "kind", "message"),
    [
        ({"decoder": decoders.ByteLevel()}, {}, UnsupportedError, "its decoder 'ByteLevel' is not supported"),
        (
            {"decoder": decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])},
            {},
            UnsupportedError,
            "its decoder 'ByteFallback' is not supported for a CTC model",
        ),
        ({"decoder": decoders.Strip(left=0, right=1)}, {}, UnsupportedError, "its decoder 'Strip'"),
        ({"decoder": decoders.Replace("th", "")}, {}, UnsupportedError, "its decoder 'Replace'"),
        ({}, {"pad_token": None}, BundleError, "pad_token is None, expected a token, the blank"),
        ({}, {"pad_token": "[X]"}, BundleError, r"pad_token is '\[X\]', expected a token, the blank"),
        (
            {"kind": GENERIC},
            {},
            UnsupportedError,
            "ParakeetTokenizer, or a tokenizer.json with a d",
        ),
    ],
    ids=str,
)
def test_pieces_that_are_refused(options, settings, kind, message, tmp_path):
    save_piece_tokenizer(tmp_path, **options)
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))
    with pytest.raises(kind, match=message):
        CTCTokenizer(tmp_path)


def test_a_missing_tokenizer_is_named(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "parakeet_ctc"}))
    with pytest.raises(BundleError, match=r"has no tokenizer\.json; save the tokenizer with the model"):
        CTCTokenizer(tmp_path)


@pytest.mark.parametrize(
    ("file", "values", "kind", "message"),
    [
        ("vocab.json", {"a": "b"}, BundleError, "'a' is 'b', expected a token id"),
        (
            "tokenizer_config.json",
            {"tokenizer_class": "X"},
            UnsupportedError,
            "'X' is not supported",
        ),
        ("tokenizer_config.json", {"pad_token": None}, BundleError, "pad_token is None, expected a token"),
        (
            "added_tokens.json",
            {"a": [1]},
            BundleError,
            r"added_tokens.json: 'a' is \[1\], expected a token id",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": [1]}, BundleError, "expected an object"),
        (
            "tokenizer_config.json",
            {"added_tokens_decoder": {"x": "y"}},
            BundleError,
            "has 'x', expected token",
        ),
        ("tokenizer_config.json", {"added_tokens_decoder": {"9" * 5000: "y"}}, BundleError, "has '999"),
        ("tokenizer_config.json", {"target_lang": [1]}, BundleError, r"of the target_lang \[1\]"),
        ("tokenizer_config.json", {"do_lower_case": 3}, BundleError, "do_lower_case is 3, expected true or"),
        (
            "tokenizer_config.json",
            {"target_lang": "deu"},
            BundleError,
            "of the target_lang 'deu'",
        ),
    ],
    ids=str,
)
def test_files_that_are_refused(file, values, kind, message, tmp_path):
    save(tmp_path)
    (tmp_path / file).write_text(json.dumps(values))
    with pytest.raises(kind, match=message):
        CTCTokenizer(tmp_path)
