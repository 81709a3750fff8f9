"""The fewest tokens that a text can be, told by its bytes, so that one which is too long is not tokenized.

Tokenizing takes 200 to 450 bytes of memory for each byte of text.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers

from txexport.errors import InputError
from txexport.runtime.preprocessing.text import Item

# How many times fewer bytes of UTF-8 a normalizer may leave of a text, over all of Unicode.
SHRINKS = {
    "NFC": 9,
    "NFD": 3,
    "NFKC": 12,
    "NFKD": 4,
    "Lowercase": 3,
    "Prepend": 1,
    "ByteLevel": 1,
    "Strip": 1,
}
LOWERED = 3  # by who reads a tokenizer in lower case beside what its file says
KEEP = ("ByteLevel", "Metaspace", "Digits", "UnicodeScripts")  # pre-tokenizers that take nothing out
SPLITS = ("Split", "Punctuation")  # nor do these, unless their behaviour says so
BLIND = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Strip")  # take out whitespace alone
SLICE = 2**16  # characters that are counted at once


class TextSize:
    """The bytes of text that one token may stand for, where a tokenizer drops nothing of a text.

    Of BPE that knows every byte, or has one token for each character that it does not know, that is the
    longest token. `None` where no number of tokens bounds a text: WordPiece reads a word of any length as
    one unknown token, Unigram many unknown characters as one, and some normalizers take characters out.
    """

    def __init__(self, tokenizer: Tokenizer):
        settings = json.loads(tokenizer.to_str())
        self.counts_spaces = not any(
            part["type"] in BLIND for part in _parts(settings, "normalizer", "pre_tokenizer")
        ) and not any(token["lstrip"] or token["rstrip"] for token in settings["added_tokens"])
        self.most = _longest_token(settings) if _drops_nothing(settings) else None

    def least_tokens(self, text: str) -> int:
        """The fewest tokens of a text; 0 where its bytes do not tell."""
        return 0 if self.most is None else -(-sum(self._bytes(text)) // self.most)

    def _bytes(self, text: str) -> Iterator[int]:
        for start in range(0, len(text), SLICE):
            piece = text[start : start + SLICE]
            yield len((piece if self.counts_spaces else "".join(piece.split())).encode())

    def check(self, items: Sequence[Item], limit: int | None, advice: str = "shorten it") -> None:
        """Raise InputError for a text or pair that must be of more than `limit` tokens, with `advice`."""
        if limit is None:
            return
        for item in items:
            texts = [item] if isinstance(item, str) else item
            tokens = sum(map(self.least_tokens, texts))
            if tokens > limit:
                start = f"{texts[0][:40]!r}..."
                raise InputError(
                    f"a text of {tokens:,} tokens or more is longer than {limit}; {advice}: {start}"
                )


def _parts(settings: Mapping[str, Any], *names: str) -> Iterable[dict[str, Any]]:
    """A tokenizer's parts of a kind, those of a sequence each."""
    for name in names:
        part = settings[name] or {}
        yield from part.get("normalizers", part.get("pretokenizers", [part] if part else []))


def _drops_nothing(settings: Mapping[str, Any]) -> bool:
    """Whether every byte of a text, or every one that is no space, is in some token of bounded length."""
    for part in _parts(settings, "normalizer"):
        if part["type"] == "Replace":
            pattern = part["pattern"].get("String")
            if pattern is None or len(part["content"].encode()) < len(pattern.encode()):
                return False
        elif part["type"] not in SHRINKS:
            return False
    for part in _parts(settings, "pre_tokenizer"):
        if part["type"] in SPLITS and part.get("behavior") != "Removed":
            continue
        if part["type"] not in (*KEEP, *BLIND):
            return False
    return _knows_everything(settings)


def _knows_everything(settings: Mapping[str, Any]) -> bool:
    """Whether a model has a token for everything that it is given."""
    model = settings["model"]
    if model["type"] not in ("BPE", "Unigram"):
        return False
    pieces = model["vocab"] if model["type"] == "BPE" else [piece for piece, _ in model["vocab"]]
    if model.get("byte_fallback"):
        return {f"<0x{byte:02X}>" for byte in range(256)} <= set(pieces)
    if model["type"] == "Unigram":
        return False
    if _by_bytes(settings):
        return set(pre_tokenizers.ByteLevel.alphabet()) <= set(pieces)
    return model["unk_token"] is not None and not model["fuse_unk"]


def _by_bytes(settings: Mapping[str, Any]) -> bool:
    """Whether a character of the vocabulary is a byte."""
    return any(part["type"] == "ByteLevel" for part in _parts(settings, "normalizer", "pre_tokenizer"))


def _longest_token(settings: Mapping[str, Any]) -> int:
    """The most bytes of a text that one token stands for."""
    vocab = settings["model"]["vocab"]
    pieces = list(vocab) if isinstance(vocab, dict) else [piece for piece, _ in vocab]
    lengths = [len(piece if _by_bytes(settings) else piece.encode()) for piece in pieces]
    lengths += [len(token["content"].encode()) for token in settings["added_tokens"]]
    longest = max(4, *lengths)  # 4: a character that is unknown
    for part in _parts(settings, "normalizer"):
        longest *= SHRINKS.get(part["type"], 1)
    return longest * LOWERED
