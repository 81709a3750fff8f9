"""The tokens of CTC heads as text: those of a vocab.json, and those of a tokenizer.json."""

import json
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, UnsupportedError, shown
from txexport.runtime.preprocessing.decoding import Cleaning
from txexport.runtime.preprocessing.text import Text, token_text, tokenizing
from txexport.support.arguments import is_whole
from txexport.support.tokenizer_classes import OF_MODEL, PARAKEET, named_class

VOCABULARY, ADDED, TOKENIZER = "vocab.json", "added_tokens.json", "tokenizer.json"
SETTINGS = "tokenizer_config.json"
LETTERS = "Wav2Vec2CTCTokenizer"
# The defaults of Wav2Vec2CTCTokenizer.
TOKENS = {
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "word_delimiter_token": "|",
    "replace_word_delimiter_char": " ",
}
FLAGS = ("do_lower_case", "clean_up_tokenization_spaces")  # false by default
# Model types whose tokenizer is used with skip_special_tokens=True: the blank is <s>, beside a padding token.
SKIPPING = ("omniasr_ctc",)
CTC = "CTC"  # the decoder of the tokenizers library that joins equal tokens and removes the blank itself


class Vocabulary(Protocol):
    """The tokens of a CTC head.

    `space` is the text between words. `strips` says whether spaces at the ends of a text are removed.
    """

    space: str
    strips: bool
    cleaning: Cleaning

    def key(self, number: int) -> Hashable:
        """The identity of a token: neighbours with equal keys are one."""
        ...

    def is_blank(self, number: int) -> bool:
        """Return whether a token has no text, as the blank and ids without a token."""
        ...

    def texts(self, number: int, *, first: bool) -> tuple[str, ...]:
        """The text of a token in parts, of which spaces are some; `first` if it is the first of a sound."""
        ...

    def cleaned(self, text: str) -> str:
        """A text as the checkpoint's settings say: in lower case, without spaces before punctuation."""
        ...

    def labels(self, count: int) -> list[str]:
        """See CTCTokenizer."""
        ...


def vocabulary(folder: Path) -> Vocabulary:
    """The vocabulary of a checkpoint or bundle, by the class of transformers that reads it.

    Raises BundleError for files that are missing or damaged, UnsupportedError for another tokenizer class.
    """
    name = _class_of(folder)
    if name == LETTERS:
        return Letters(folder, read_json(folder / SETTINGS, missing={}))
    if name == PARAKEET or _decoder_type(folder) == CTC:
        return Pieces(folder, name == PARAKEET, skips_special(folder))
    raise UnsupportedError(
        f"tokenizer {shown(name)} is not supported; expected {LETTERS}, {PARAKEET}, or a {TOKENIZER} with a "
        "decoder of type CTC"
    )


def skips_special(folder: Path) -> bool:
    """Return whether special tokens have no text. Raises BundleError."""
    return read_json(folder / "config.json", missing={}).get("model_type") in SKIPPING


def file_of(folder: Path) -> str:
    """The name of the file that a checkpoint's tokenizer is read from. Raises BundleError."""
    return VOCABULARY if _class_of(folder) == LETTERS else TOKENIZER


def _class_of(folder: Path) -> str:
    """The tokenizer class, named by the files or that of the model type."""
    settings = read_json(folder / SETTINGS, missing={})
    config = read_json(folder / "config.json", missing={})
    return named_class(settings, config) or OF_MODEL.get(str(config.get("model_type")), LETTERS)


class Letters:
    """The vocabulary of a Wav2Vec2CTCTokenizer; the padding token is the blank."""

    strips = True

    def __init__(self, folder: Path, settings: Mapping[str, Any]):
        values = TOKENS | read_json(folder / "special_tokens_map.json", missing={}) | settings
        texts = {name: _text(name, values[name]) for name in TOKENS}
        self.blank, self.unknown = texts["pad_token"], texts["unk_token"]
        self.delimiter, self.space = texts["word_delimiter_token"], texts["replace_word_delimiter_char"]
        self.lower, tidy = (_flag(settings, name) for name in FLAGS)
        self.cleaning = Cleaning(tidy, times=False)
        self.tokens = _tokens(folder, settings.get("target_lang"))
        for number, text in _by_id(read_json(folder / ADDED, missing={}), ADDED).items():
            self.tokens.setdefault(number, text)
        for key, token in _object(settings, "added_tokens_decoder").items():
            if not (key.isdecimal() and len(key) < 11):
                raise BundleError(f"{SETTINGS}: added_tokens_decoder has {shown(key)}, expected token ids")
            self.tokens.setdefault(int(key), _text(key, token))

    def key(self, number: int) -> str:
        """See Vocabulary; several ids may have one text."""
        return self.tokens.get(number, self.unknown)

    def is_blank(self, number: int) -> bool:
        """See Vocabulary."""
        return self.key(number) == self.blank

    def texts(self, number: int, *, first: bool) -> tuple[str, ...]:
        """See Vocabulary."""
        text = self.key(number)
        return (self.space if text == self.delimiter else text,)

    def cleaned(self, text: str) -> str:
        """See Vocabulary."""
        return self.cleaning.clean(text.lower() if self.lower else text)

    def labels(self, count: int) -> list[str]:
        """See Vocabulary."""
        special = {self.blank: "", self.delimiter: " "}
        texts = [self.key(number) for number in range(count)]
        return [special.get(text, text) for text in texts]


class Labels:
    """The vocabulary of a beam search: the texts of its tokens, "" of the blank and a space behind words."""

    space, strips, cleaning = " ", True, Cleaning(False, times=False)

    def __init__(self, texts: Sequence[str]):
        self._texts = texts

    def key(self, number: int) -> str:
        """See Vocabulary."""
        return self._texts[number]

    def is_blank(self, number: int) -> bool:
        """See Vocabulary."""
        return not self._texts[number]

    def texts(self, number: int, *, first: bool) -> tuple[str, ...]:
        """See Vocabulary."""
        return (self._texts[number],)

    def cleaned(self, text: str) -> str:
        """See Vocabulary."""
        return text

    def labels(self, count: int) -> list[str]:
        """See Vocabulary."""
        return [*self._texts[:count]]


class Pieces:
    """The vocabulary of a tokenizer.json whose tokens have texts of their own, but for the first of a sound.

    If `padded`, as in ParakeetTokenizer, the padding token is the blank; otherwise the decoder removes it. If
    it `skips` them, special tokens are blanks too.
    Raises BundleError for files that are missing or damaged, UnsupportedError for another decoder.
    """

    space, strips = " ", False

    def __init__(self, folder: Path, padded: bool, skips: bool):
        if not (folder / TOKENIZER).is_file():
            raise BundleError(
                f"{folder} has no {TOKENIZER}; save the tokenizer with the model and export again"
            )
        text = Text(folder)
        self.tokenizer, self.cleaning, self.padded = text.tokenizer, text.cleaning, padded
        self.special = text.joining.special if skips else set()
        if (step := _unsupported(self.tokenizer.decoder)) is not None and padded:
            raise UnsupportedError(f"{TOKENIZER}: its decoder {shown(step)} is not supported for a CTC model")
        self.blank: int | None = None
        if padded:
            token = token_text(text.settings.get("pad_token"))
            self.blank = self.tokenizer.token_to_id(token) if isinstance(token, str) else None
            if self.blank is None:
                raise BundleError(f"{SETTINGS}: pad_token is {shown(token)}, expected a token, the blank")
        self._texts: dict[tuple[int, bool], tuple[str, ...]] = {}

    def key(self, number: int) -> int:
        """See Vocabulary."""
        return number

    def is_blank(self, number: int) -> bool:
        """See Vocabulary."""
        missing = self.tokenizer.id_to_token(number) is None
        if number == self.blank or number in self.special or missing:
            return True
        return not self.padded and not self._decoded([number])

    def texts(self, number: int, *, first: bool) -> tuple[str, ...]:
        """See Vocabulary; a tokenizer's decoder may drop the space before the first token."""
        parts = self._texts.get((number, first))
        if parts is None:
            text = self._decoded([number])
            if self.padded and not first:
                text = self._decoded([number, number])[len(text) :]
            parts = tuple(_split(text, self.space))
            self._texts[number, first] = parts
        return parts

    def cleaned(self, text: str) -> str:
        """See Vocabulary."""
        return self.cleaning.clean(text)

    def labels(self, count: int) -> list[str]:
        """Raise InputError: a beam search ends words at tokens of their own."""
        raise InputError(
            "num_beams is more than 1, but the model's tokens are pieces of words; leave it out, or give 1"
        )

    def _decoded(self, ids: list[int]) -> str:
        with tokenizing():
            return self.tokenizer.decode(ids, skip_special_tokens=False)


def _split(text: str, space: str) -> list[str]:
    """A text in words and single spaces."""
    parts: list[str] = []
    for number, word in enumerate(text.split(space)):
        parts += [space] * bool(number) + [word] * bool(word)
    return parts


def _decoder_type(folder: Path) -> Any:
    """The type of the decoder in tokenizer.json; None where there is none."""
    decoder = read_json(folder / TOKENIZER, missing={}).get("decoder")
    return decoder.get("type") if isinstance(decoder, Mapping) else None


def _unsupported(decoder: Any) -> str | None:
    """The first step of a decoder by which a token's text depends on more than whether it is the first."""
    values = {} if decoder is None else json.loads(decoder.__getstate__())
    steps = values.get("decoders", [values]) if values else []
    return next((step["type"] for step in steps if not _is_independent(step)), None)


def _is_independent(step: Mapping[str, Any]) -> bool:
    if step["type"] == "Replace":
        return len(step["pattern"].get("String", "ab")) == 1
    if step["type"] == "Strip":
        return step["start"] < 2 and not step["stop"]
    return step["type"] in ("Fuse", "Metaspace")


def _tokens(folder: Path, language: Any) -> dict[int, str]:
    """Tokens by id, of one `language` where each has a vocabulary."""
    values = read_json(folder / VOCABULARY)
    if language is not None:
        if not isinstance(language, str) or not isinstance(values.get(language), dict):
            raise BundleError(f"{VOCABULARY} has no vocabulary of the target_lang {shown(language)}")
        values = values[language]
    elif any(isinstance(value, Mapping) for value in values.values()):
        raise BundleError(
            f"{VOCABULARY} has a vocabulary for each language, and {SETTINGS} no target_lang; choose one, "
            f"such as {shown(min(values))}, at export (--language)"
        )
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
    text = token_text(value)
    if not isinstance(text, str):
        raise BundleError(f"{SETTINGS}: {name} is {shown(value)}, expected a token")
    return text


def _flag(settings: Mapping[str, Any], name: str) -> bool:
    value = settings.get(name) or False
    if not isinstance(value, bool):
        raise BundleError(f"{SETTINGS}: {name} is {shown(value)}, expected true or false")
    return value
