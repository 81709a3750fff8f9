"""Texts of CTC's token ids, as Wav2Vec2CTCTokenizer of transformers decodes them; S vectors of a sound."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from txexport.bundle import read_json
from txexport.errors import BundleError, UnsupportedError, shown
from txexport.runtime.preprocessing.decoding import Cleaning
from txexport.support.arguments import is_whole

VOCABULARY, ADDED = "vocab.json", "added_tokens.json"
SETTINGS = "tokenizer_config.json"
KIND = "Wav2Vec2CTCTokenizer"
# The defaults of Wav2Vec2CTCTokenizer.
TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "word_delimiter_token": "|",
    "replace_word_delimiter_char": " ",
}
FLAGS = ("do_lower_case", "clean_up_tokenization_spaces")  # false by default


class CTCTokenizer:
    """The vocabulary of a CTC head. Equal tokens in a row are one; the padding token is the blank.

    Raises BundleError for files that are missing or damaged, UnsupportedError for another tokenizer class.
    """

    def __init__(self, folder: Path):
        settings = read_json(folder / SETTINGS, missing={})
        if (kind := settings.get("tokenizer_class") or KIND) != KIND:
            raise UnsupportedError(f"tokenizer {shown(kind)} is not supported; expected {KIND}")
        values = TOKENS | read_json(folder / "special_tokens_map.json", missing={}) | settings
        texts = {name: _text(name, values[name]) for name in TOKENS}
        self.blank, self.unknown = texts["pad_token"], texts["unk_token"]
        self.delimiter, self.space = texts["word_delimiter_token"], texts["replace_word_delimiter_char"]
        self.lower, tidy = (_flag(settings, name) for name in FLAGS)
        self.cleaning = Cleaning(tidy, times=False)
        self.tokens = _vocabulary(folder, settings.get("target_lang"))
        for number, text in _by_id(read_json(folder / ADDED, missing={}), ADDED).items():
            self.tokens.setdefault(number, text)
        for key, token in _object(settings, "added_tokens_decoder").items():
            if not (key.isdecimal() and len(key) < 11):
                raise BundleError(f"{SETTINGS}: added_tokens_decoder has {shown(key)}, expected token ids")
            self.tokens.setdefault(int(key), _text(key, token))

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the likeliest token ids (S) of a sound's vectors."""
        return self.join([[text for text, _start, _end in self._characters(ids)]])

    def words(self, ids: Sequence[int]) -> list[tuple[str, int, int]]:
        """The words of the same ids, each with its first vector and the one after its last.

        As in the original, words are neither in lower case nor cleaned up.
        """
        groups = groupby(self._characters(ids), key=lambda character: character[0] == self.space)
        runs = [list(group) for is_space, group in groups if not is_space]
        return [("".join(text for text, _, _ in run), run[0][1], run[-1][2]) for run in runs]

    def settled(self, ids: Sequence[int], by_word: bool) -> int:
        """The number of ids, from the first, whose characters further ids cannot change.

        They end before the last space. Without a space they end before the last character, or with `by_word`
        before the first; without characters all are settled.
        """
        characters = self._characters(ids)
        spaces = [start for text, start, _ in characters if text == self.space]
        if spaces:
            return spaces[-1]
        if not characters:
            return len(ids)
        return characters[0 if by_word else -1][1]

    def raw(self, ids: Sequence[int]) -> str:
        """The text of token ids before it is stripped and cleaned up."""
        return "".join(text for text, _start, _end in self._characters(ids))

    def join(self, parts: Iterable[Sequence[str]]) -> str:
        """The text of words by their characters, cleaned up as the checkpoint's settings say."""
        return self.cleaned(self.space.join("".join(word) for word in parts).strip())

    def cleaned(self, text: str) -> str:
        """A text in lower case and cleaned up, if the checkpoint's settings say so."""
        return self.cleaning.clean(text.lower() if self.lower else text)

    def _characters(self, ids: Sequence[int]) -> list[tuple[str, int, int]]:
        """Characters, each with its first vector and the one after its last: equal ones in a row are one."""
        characters, end = [], 0
        for text, group in groupby(self.tokens.get(number, self.unknown) for number in ids):
            start, end = end, end + len(list(group))
            if text != self.blank:
                characters.append((self.space if text == self.delimiter else text, start, end))
        return characters


def _vocabulary(folder: Path, language: Any) -> dict[int, str]:
    """Tokens by id, of one `language` where each has a vocabulary."""
    values = read_json(folder / VOCABULARY)
    if language is not None:
        if not isinstance(language, str) or not isinstance(values.get(language), dict):
            raise BundleError(f"{VOCABULARY} has no vocabulary of the target_lang {shown(language)}")
        values = values[language]
    return _by_id(values, VOCABULARY)


def _by_id(values: Mapping[str, Any], file: str) -> dict[int, str]:
    """The tokens of a file by id."""
    for text, number in values.items():
        if not is_whole(number, 0):
            raise BundleError(f"{file}: {shown(text)} is {shown(number)}, expected a token id")
    return {number: text for text, number in values.items()}


def _object(settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A setting that is an object; empty if it is missing."""
    value = settings.get(name) or {}
    if not isinstance(value, Mapping):
        raise BundleError(f"{SETTINGS}: {name} is {shown(value)}, expected an object")
    return value


def _text(name: str, value: Any) -> str:
    """A token's text, or that of the object that describes it."""
    text = value.get("content") if isinstance(value, Mapping) else value
    if not isinstance(text, str):
        raise BundleError(f"{SETTINGS}: {name} is {shown(value)}, expected a token")
    return text


def _flag(settings: Mapping[str, Any], name: str) -> bool:
    value = settings.get(name) or False
    if not isinstance(value, bool):
        raise BundleError(f"{SETTINGS}: {name} is {shown(value)}, expected true or false")
    return value
