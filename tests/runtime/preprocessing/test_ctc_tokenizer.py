"""Texts of CTC's token ids against Wav2Vec2CTCTokenizer."""

import json
import random

import pytest
import transformers
from helpers.speech import LETTERS

from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer

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
