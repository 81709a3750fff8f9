"""Text to token ids and back, through the bundle's tokenizer.json."""

import contextlib
import operator
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from tokenizers import Encoding, Tokenizer, normalizers

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, LibraryError, TxexportError, crashes, first_line, shown
from txexport.runtime.preprocessing.decoding import Cleaning, Joining
from txexport.support.tokenizer_classes import WHISPER, tokenizer_class

Item: TypeAlias = str | tuple[str, str]  # a text, or two that the tokenizer's pair template joins
Words: TypeAlias = list[str] | tuple[list[str], list[str]]  # the same, as words

LEFT, RIGHT = "left", "right"
LONGEST_FIRST = "longest_first"  # which text of a pair is cut, as tokenizers names it
# The texts of special tokens that a checkpoint's files do not name.
USUAL = {
    "mask_token": ("[MASK]", "<mask>"),
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>"),
}
# Settings that remove spaces from decoded text; for BPE only the two together do.
CLEANS = "clean_up_tokenization_spaces"
CORRUPTS = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"


@contextlib.contextmanager
def tokenizing(
    kind: type[TxexportError] = LibraryError, failure: str = "the tokenizer does not read this text"
) -> Iterator[None]:
    """Raise `kind` for plain exceptions of the library of tokenizers, and LibraryError for its panics."""
    try:
        with crashes():
            yield
    except (TxexportError, MemoryError):
        raise
    except Exception as error:
        raise kind(f"{failure}: {first_line(error)}") from None


def read_settings(folder: Path) -> dict[str, Any]:
    """The tokenizer's settings outside tokenizer.json, as transformers reads them. Raises BundleError.

    special_tokens_map.json overrides tokenizer_config.json, unless the latter lists all added tokens.
    """
    settings = read_json(folder / "tokenizer_config.json", missing={})
    if "added_tokens_decoder" in settings:
        return settings
    return settings | read_json(folder / "special_tokens_map.json", missing={})


class Text:
    """The bundle's tokenizer, without padding and truncation."""

    def __init__(self, folder: Path):
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise BundleError(
                f"{folder} has no tokenizer.json: save a fast tokenizer with the checkpoint and export "
                "again; in Python, token ids can be given instead"
            )
        with tokenizing(BundleError, f"{path} cannot be read"):
            self.tokenizer = Tokenizer.from_file(str(path))
        self.settings = read_settings(folder)
        self.cut_side = self._side("truncation_side", self.tokenizer.truncation)
        self.padding_side = self._side("padding_side", self.tokenizer.padding)
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.tokenizer.encode_special_tokens = bool(self.settings.get("split_special_tokens"))
        adds_spaces = type(self.tokenizer.model).__name__ != "BPE"  # BPE keeps the text's own spaces
        tidy = (adds_spaces or bool(self.settings.get(CORRUPTS))) and bool(self.settings.get(CLEANS))
        kind = tokenizer_class(self.settings, read_json(folder / "config.json", missing={}))
        self.cleaning, self.joining = Cleaning(tidy, kind == WHISPER), Joining(self.tokenizer)

    def _side(self, name: str, section: dict | None) -> str:
        """The side to cut or to pad, by the settings or else tokenizer.json. Raises BundleError."""
        side = self.settings.get(name, (section or {}).get("direction", RIGHT))
        if side not in (LEFT, RIGHT):
            raise BundleError(f"tokenizer_config.json: {name} is {shown(side)}, expected {LEFT} or {RIGHT}")
        return str(side)

    @cached_property
    def lowered(self) -> "Text":
        """The tokenizer for lowercased text, as in sentence-transformers; special tokens keep their case."""
        result = copy(self)
        result.tokenizer = Tokenizer.from_str(self.tokenizer.to_str())
        result.tokenizer.encode_special_tokens = self.tokenizer.encode_special_tokens
        normalizer = self.tokenizer.normalizer
        result.tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Lowercase(), *([] if normalizer is None else [normalizer])]
        )
        return result

    def encode(
        self,
        texts: Sequence[Item],
        limit: int | None = None,
        strategy: str = LONGEST_FIRST,
        *,
        adds: bool = True,
    ) -> list[Encoding]:
        """One encoding a text or pair, with the special tokens that the tokenizer adds, if it `adds` any.

        `limit` truncates to that many tokens, special ones included, which are kept and always added; pairs
        are cut as in `windows`.
        """
        if limit is None:
            with tokenizing():  # encode_batch, since encode blocks all other threads
                return self.tokenizer.encode_batch(list(texts), add_special_tokens=adds)
        return self.windows(texts, limit, strategy=strategy)

    def split(self, texts: Sequence[Words]) -> list[Encoding]:
        """One encoding a text or pair of words, each of which is split into tokens by itself."""
        with tokenizing():
            return self.tokenizer.encode_batch(list(texts), is_pretokenized=True)

    def windows(
        self,
        texts: Sequence[Item] | Sequence[Words],
        size: int,
        overlap: int = 0,
        strategy: str = LONGEST_FIRST,
        *,
        split: bool = False,
        shrink_overlap: bool = False,
    ) -> list[Encoding]:
        """Encodings of at most `size` tokens; further windows of a longer text are in its `overflowing`.

        A window repeats the last `overlap` tokens of the one before; of a pair `strategy` says which text is
        cut. Texts that are `split` are words. Raises InputError where special tokens, overlap and the uncut
        text leave no room in a window. With `shrink_overlap`, windows share half of what is left where that
        is no more than the overlap.
        """
        with tokenizing():
            encodings = self.tokenizer.encode_batch(list(texts), is_pretokenized=split)
        long = [i for i, encoding in enumerate(encodings) if len(encoding) > size]
        if not long:
            return encodings
        overlaps: dict[int, list[int]] = {}  # the texts of each
        for i in long:
            uncut = {"only_first": 1, "only_second": 0}.get(strategy)
            fixed = 0 if uncut is None else encodings[i].sequence_ids.count(uncut)
            room = size - fixed - self.tokenizer.num_special_tokens_to_add(isinstance(texts[i], tuple))
            shared = room // 2 if shrink_overlap and 0 < room <= overlap else overlap
            if room <= shared:
                raise InputError(
                    f"windows of {size} tokens leave {max(room, 0)} for the text that they cut, expected "
                    f"more than their overlap of {shared}; shorten what they repeat, or the overlap"
                )
            overlaps.setdefault(shared, []).append(i)
        with tokenizing():
            cutter = Tokenizer.from_str(
                self.tokenizer.to_str()
            )  # a copy: all threads share a tokenizer's settings
        cutter.encode_special_tokens = self.tokenizer.encode_special_tokens
        for shared, indices in overlaps.items():
            with tokenizing():
                cutter.enable_truncation(size, stride=shared, strategy=strategy, direction=self.cut_side)
                cut = cutter.encode_batch([texts[i] for i in indices], is_pretokenized=split)
            for i, encoding in zip(indices, cut, strict=True):
                encodings[i] = encoding
        return encodings

    def decode(self, rows: Sequence[Sequence[int]], *, special: bool = False) -> list[str]:
        """One text a row of ids; special tokens are left out unless `special`."""
        with tokenizing():
            texts = self.tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=not special)
        return [self.cleaning.clean(text) for text in texts]

    def join(self, tokens: list[str]) -> str:
        """Tokens as text, by the tokenizer's decoder."""
        decoder = self.tokenizer.decoder
        if decoder is None:
            return " ".join(tokens)
        with tokenizing():
            return decoder.decode(tokens)

    def special(self, name: str) -> tuple[str, int] | None:
        """The token that serves as `name`, as "mask_token", and its id; None where there is none."""
        for token in [token_text(self.settings.get(name)), *USUAL.get(name, ())]:
            if isinstance(token, str) and (number := self.tokenizer.token_to_id(token)) is not None:
                return token, number
        return None


def token_text(token: Any) -> Any:
    """The text of a special token, which files store as a string or in an object."""
    return token.get("content") if isinstance(token, dict) else token


def as_texts(texts: str | Sequence[str]) -> list[str]:
    """One text or several as a list. Raises InputError for anything else, and for invalid Unicode."""
    listed = as_list(texts)
    for text in listed:
        _check(text)
    return listed


def as_list(values: Any) -> list:
    """Values as a list; a single value, such as a text, becomes a list of one.

    Raises InputError for a set, which has no order, and for a dict, of which a list would be the keys.
    """
    if isinstance(values, set | frozenset | Mapping):
        raise InputError(f"the inputs are a {type(values).__name__}, expected a list, whose order is known")
    try:
        return [values] if isinstance(values, str | bytes) else list(values)
    except TypeError:  # not iterable; the caller checks the value
        return [values]


def as_items(items: str | Sequence[Item]) -> list[Item]:
    """One text or several texts and pairs of texts as a list. Raises InputError as `as_texts`."""
    return [_pair(item) if isinstance(item, list | tuple) else _check(item) for item in as_list(items)]


def _pair(item: Sequence[str]) -> tuple[str, str]:
    if len(item) != 2:
        raise InputError(f"a pair is {len(item)} texts, expected 2")
    return _check(item[0]), _check(item[1])


def _check(text: object) -> str:
    if not isinstance(text, str):
        raise InputError(f"a text is {type(text).__name__}, expected str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        start = max(0, error.start - 20)
        raise InputError(f"a text is not valid Unicode: {text[start : start + 40]!r}") from None
    return text


def as_rows(rows: Sequence[Sequence[int] | np.ndarray], vocab_size: int) -> list[list[int]]:
    """Rows of token ids as lists. Raises InputError unless ids are whole numbers below `vocab_size`."""
    try:
        listed = [[operator.index(token) for token in row] for row in rows]
    except (TypeError, ValueError):  # of an object's own, as of arrays of arrays
        raise InputError(
            f"token ids are not rows of whole numbers, as in [[5, 6, 7], [8, 9]], but {shown(rows)}"
        ) from None
    for row in listed:
        if not row:
            raise InputError("a row has no tokens; every row needs at least one")
        if min(row) < 0 or max(row) >= vocab_size:
            raise InputError(f"token ids run from {min(row)} to {max(row)}, expected 0 to {vocab_size - 1}")
    return listed


def pad(rows: Sequence[Sequence[int]], value: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids, padded on the right with `value` -> ids and mask, both (B,S) int64."""
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), value, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask
