"""Speech2Text's tokenizer beside transformers': other ids or texts come out if one of these fails."""

import json

import pytest
import transformers
from helpers.speech import save_speech_to_text
from num2words import num2words
from tokenizers import Tokenizer

from txexport.checkpoints.tokenizer_conversion import tokenizer_json

TEXTS = [num2words(number, lang=language) for number in range(0, 3000, 77) for language in ("en", "fr")]
TEXTS += ["", "  deux   cents ", "naïve x", "</s>"]


@pytest.fixture(scope="module", params=[False, True], ids=["one language", "several languages"])
def folder(request, tmp_path_factory):
    """A checkpoint's folder."""
    return save_speech_to_text(tmp_path_factory.mktemp("in"), languages=request.param)


def test_ids_and_texts_are_those_of_transformers(folder):
    ours = Tokenizer.from_str(tokenizer_json(folder))
    original = transformers.Speech2TextTokenizer.from_pretrained(folder)
    for text in TEXTS[:-1]:
        assert ours.encode(text).ids == original(text).input_ids
    for first in range(0, 200, 7):
        ids = [(first + 3 * step) % 200 for step in range(9)]
        assert ours.decode(ids) == original.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"do_upper_case": True}, "do_upper_case, so no tokenizer.json was made"),
        ({"lang_codes": "covost"}, "lang_codes is 'covost', expected mustc"),
        ({"lang_codes": "mustc", "tgt_lang": "xx"}, "tgt_lang is 'xx', which is no language of it"),
        ({"unk_token": "?"}, "unk_token is '[?]', expected <unk>"),
    ],
)
def test_settings_of_other_tokenizers_are_refused(change, line, tmp_path):
    folder = save_speech_to_text(tmp_path, languages="tgt_lang" in change)
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.warns(UserWarning, match=line):
        assert tokenizer_json(folder) is None


def test_a_vocabulary_without_a_piece_is_refused(tmp_path):
    folder = save_speech_to_text(tmp_path)
    vocab = json.loads((folder / "vocab.json").read_text())
    del vocab["▁" if "▁" in vocab else next(word for word in vocab if "▁" in word)]
    (folder / "vocab.json").write_text(json.dumps(vocab))
    with pytest.warns(UserWarning, match=r"vocab.json lacks '.*', so no tokenizer.json was made"):
        assert tokenizer_json(folder) is None
