"""Text to token ids and back, through the bundle's tokenizer.json."""

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
        self.tokenizer = Tokenizer.from_file(str(path))
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


def pad(rows: Sequence[Sequence[int]], value: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids, padded on the right with `value` -> ids and mask, both (B,S) int64."""
    if not rows or not all(len(row) for row in rows):
        raise InputError("every row needs at least one token")
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), value, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        mask[i, : len(row)] = 1
    return ids, mask
