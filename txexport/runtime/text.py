"""Text to token ids and back, through the bundle's tokenizer.json."""

import operator
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tokenizers import Encoding, Tokenizer

from txexport.errors import BundleError, InputError


class Text:
    """A tokenizer that neither pads nor cuts: lengths are the caller's to decide."""

    def __init__(self, folder: Path):
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise BundleError(
                f"{folder} has no tokenizer.json; give token ids, or save a fast tokenizer with the model"
            )
        try:
            self.tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises plain exceptions
            raise BundleError(f"{path} cannot be read: {str(error).splitlines()[0]}") from None
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()

    def encode(self, texts: Sequence[str], limit: int | None = None) -> list[Encoding]:
        """One encoding a text, with the special tokens that the tokenizer adds.

        `limit` cuts a text to so many tokens, special ones included, which stay.
        """
        tokenizer = self.tokenizer
        if limit is not None:
            tokenizer = Tokenizer.from_str(tokenizer.to_str())  # settings of a tokenizer hold for all threads
            tokenizer.enable_truncation(limit)
        return tokenizer.encode_batch(list(texts))

    def decode(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """One text a row of ids, without special tokens."""
        return self.tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)


class Pieces:
    """Tokens that come one by one as text that never splits a character."""

    def __init__(self, text: Text):
        self.text = text
        self.tokens: list[int] = []
        self.known = self.read = 0  # tokens before `read` are out; those from `known` on decode what follows

    def add(self, token: int) -> str:
        """The text that `token` completes; empty while a character is in parts."""
        self.tokens.append(token)
        return self._more(complete=False)

    def rest(self) -> str:
        """What is left in the end, a broken character included."""
        return self._more(complete=True)

    def _more(self, complete: bool) -> str:
        before, after = self.text.decode([self.tokens[self.known : self.read], self.tokens[self.known :]])
        if len(after) <= len(before) or (after.endswith("\ufffd") and not complete):
            return ""
        self.known, self.read = self.read, len(self.tokens)
        return after[len(before) :]


def as_texts(texts: str | Sequence[str]) -> list[str]:
    """One text or several as a list. Raises InputError for anything else, and for text that is no Unicode."""
    found = [texts] if isinstance(texts, str) else list(texts)
    for text in found:
        if not isinstance(text, str):
            raise InputError(f"a text is {type(text).__name__}, expected str")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputError(f"a text is not valid Unicode: {text[:40]!r}") from None
    return found


def as_rows(rows: Sequence[Sequence[int] | np.ndarray], vocab_size: int) -> list[list[int]]:
    """Rows of token ids as lists. Raises InputError for ids that are no whole numbers below `vocab_size`."""
    try:
        found = [[operator.index(token) for token in row] for row in rows]
    except TypeError:
        raise InputError("token ids are not rows of whole numbers, as in [[5, 6, 7], [8, 9]]") from None
    for row in found:
        if not row:
            raise InputError("a row has no tokens; every row needs at least one")
        if min(row) < 0 or max(row) >= vocab_size:
            raise InputError(f"token ids run from {min(row)} to {max(row)}, expected 0 to {vocab_size - 1}")
    return found


def pad(rows: Sequence[Sequence[int]], value: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids, padded on the right with `value` -> ids and mask, both (B,S) int64."""
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), value, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask
