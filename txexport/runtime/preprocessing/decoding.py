"""Clean-up of decoded text, and the prefix of it that further tokens cannot change."""

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from tokenizers import Tokenizer

BROKEN = "\ufffd"  # ends text whose last character lacks bytes
# Spaces that transformers removes from decoded text if clean_up_tokenization_spaces is set.
SPACES = (" .", " ?", " !", " ,", " ' ", " n't", " 'm", " 's", " 've", " 're")
BEGINNINGS = {spaced: tuple(spaced[:n] for n in range(1, len(spaced))) for spaced in SPACES}
TIME = re.compile(r"<\|\d+\.\d+\|>")  # timestamps, which transformers removes from Whisper's text
BEGINNING_OF_TIME = re.compile(r"<(\|(\d+(\.(\d+\|?)?)?)?)?\Z")
ENDS = {"^ +| +$", "^ +", " +$"}  # patterns of spaces at the ends of a text, which grow as it does


class Cleaning:
    """transformers' clean-up of decoded text: spaces if `tidy`, timestamp tokens if `times`."""

    def __init__(self, tidy: bool, times: bool):
        self.tidy, self.times = tidy, times

    def clean(self, text: str) -> str:
        """The cleaned text."""
        for spaced in SPACES if self.tidy else ():
            text = text.replace(spaced, spaced.strip())
        return TIME.sub("", text) if self.times else text

    def settles(self, text: str) -> bool:
        """Return whether further text cannot change the clean-up of this text."""
        for spaced in SPACES if self.tidy else ():
            if text.endswith(BEGINNINGS[spaced]):
                return False
            text = text.replace(spaced, spaced.strip())
        return not (self.times and BEGINNING_OF_TIME.search(text))


class Joining:
    """The decoder of a tokenizer: tokens to text."""

    def __init__(self, tokenizer: Tokenizer):
        self.tokenizer = tokenizer
        added = tokenizer.get_added_tokens_decoder()
        self.special = {number for number, token in added.items() if token.special}

    @cached_property
    def grows(self) -> bool:
        """Return whether the text of more tokens begins with that of fewer, except for its last character.

        This holds for the decoders of published tokenizers. A decoder may change earlier text, for example by
        replacing several characters across tokens; then text is returned only at the end.
        """
        decoder = self.tokenizer.decoder
        return decoder is None or _grows(json.loads(decoder.__getstate__()))

    def is_byte(self, token: int) -> bool:
        """Return whether a token is a byte of a run that is decoded together (byte fallback)."""
        word = self.tokenizer.id_to_token(token) or ""
        return len(word) == 6 and word.startswith("<0x") and word.endswith(">")

    def text(self, tokens: list[int]) -> str:
        """The text of tokens without special tokens."""
        return self.tokenizer.decode(tokens, skip_special_tokens=True)


def _grows(decoder: Mapping[str, Any]) -> bool:
    """Return whether the text of more tokens begins with that of fewer, by the steps of a decoder."""
    joined = False  # whether the tokens are one text by then
    for step in decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]:
        kind = step["type"]
        if kind == "Sequence" or (joined and not _keeps(step)):
            return False
        joined = joined or kind in ("ByteLevel", "Fuse")
    return True


def _keeps(step: Mapping[str, Any]) -> bool:
    """Return whether a step's result for a text begins with its result for a prefix of it."""
    kind = step["type"]
    if kind == "Replace":
        pattern = step["pattern"]
        return len(pattern.get("String", "ab")) == 1 or pattern.get("Regex") in ENDS
    return kind in ("ByteLevel", "Fuse", "Metaspace", "Strip")
