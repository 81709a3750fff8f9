"""Lower bounds on a text's number of tokens, so that a text that is too long need not be tokenized.

Tokenizing takes 200 to 450 bytes of memory for each byte of text.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tokenizers import Tokenizer, pre_tokenizers

from txexport.errors import InputError
from txexport.runtime.preprocessing.text import Item

# The largest factor by which a normalizer shrinks a text's UTF-8, over all of Unicode.
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
LOWERED = 3  # the factor of the lower case that Text.lowered adds
KEEP = ("ByteLevel", "Metaspace", "Digits", "UnicodeScripts")  # pre-tokenizers that drop nothing
SPLITS = ("Split", "Punctuation")  # nor do these, unless their behaviour says so
BLIND = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Strip")  # drop only whitespace
WORD = re.compile(
    r"[A-Za-z0-9][^ \t\n\r]*"
)  # to its end; other spaces are control characters, which BERT drops
SMALL = 2**14  # characters; shorter texts are tokenized and counted exactly
SLICE = 2**16  # characters that are counted at once


class TextSize:
    """A lower bound on the number of tokens of a text, from its bytes and words.

    Where a tokenizer drops nothing of a text, `most` is the most bytes that one token covers: for BPE with
    all bytes, or with one token for each unknown character, those of its longest token. It is None where
    bytes give no bound: WordPiece reads a word of any length as one unknown token, Unigram many unknown
    characters as one, and some normalizers remove characters. `by_words` is true for WordPiece: a word with
    an ASCII letter or digit is at least one token.
    """

    def __init__(self, tokenizer: Tokenizer):
        settings = json.loads(tokenizer.to_str())
        self.by_words = _splits_words(settings)
        self.counts_spaces = not any(
            part["type"] in BLIND for part in _parts(settings, "normalizer", "pre_tokenizer")
        ) and not any(token["lstrip"] or token["rstrip"] for token in settings["added_tokens"])
        self.most = _longest_token(settings) if _drops_nothing(settings) else None

    def least_tokens(self, text: str, enough: int | None = None) -> int:
        """A lower bound on the tokens of a text; the count may stop once it exceeds `enough`.

        0 where neither bytes nor words give a bound.
        """
        if self.most is None and not self.by_words:
            return 0
        counted, tokens = 0, 0
        for start in range(0, len(text), SLICE):
            piece = text[start : start + SLICE]
            if self.most is None:  # a word that is cut in two counts once
                counted += len(WORD.findall(piece)) - (start > 0)
                tokens = counted
            else:
                counted += len((piece if self.counts_spaces else "".join(piece.split())).encode())
                tokens = -(-counted // self.most)
            if enough is not None and tokens > enough:
                break
        return tokens

    def check(self, items: Sequence[Item], limit: int | None, advice: str = "shorten it") -> None:
        """Raise InputError for a text or pair that must have more than `limit` tokens, with `advice`."""
        if limit is None:
            return
        for item in items:
            texts = [item] if isinstance(item, str) else item
            if sum(map(len, texts)) <= SMALL:
                continue
            tokens = sum(self.least_tokens(text, limit) for text in texts)
            if tokens > limit:
                start = f"{texts[0][:40]!r}..."
                raise InputError(
                    f"a text of {tokens:,} tokens or more is longer than {limit}; {advice}: {start}"
                )


def _parts(settings: Mapping[str, Any], *names: str) -> Iterable[dict[str, Any]]:
    """The components of a tokenizer with these names; sequences are flattened."""
    for name in names:
        part = settings[name] or {}
        yield from part.get("normalizers", part.get("pretokenizers", [part] if part else []))


def _drops_nothing(settings: Mapping[str, Any]) -> bool:
    """Return whether every byte of a text, or all but spaces, are in tokens of bounded length."""
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
    """Return whether a tokenizer model has a token for every input."""
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
    """Tell whether a character of the vocabulary is a byte."""
    return any(part["type"] == "ByteLevel" for part in _parts(settings, "normalizer", "pre_tokenizer"))


def _splits_words(settings: Mapping[str, Any]) -> bool:
    """Tell whether a model reads words as BERT's does: none is dropped, and no token reaches beyond one."""
    return (
        settings["model"]["type"] == "WordPiece"
        and {part["type"] for part in _parts(settings, "normalizer")} <= {"BertNormalizer", "Lowercase"}
        and {part["type"] for part in _parts(settings, "pre_tokenizer")} <= {"BertPreTokenizer"}
        and bool(settings["pre_tokenizer"])
        and all(token["content"].split() == [token["content"]] for token in settings["added_tokens"])
        and not settings["model"].get("fuse_unk")
    )


def _longest_token(settings: Mapping[str, Any]) -> int:
    """The most bytes of text that one token covers."""
    vocab = settings["model"]["vocab"]
    pieces = list(vocab) if isinstance(vocab, dict) else [piece for piece, _ in vocab]
    lengths = [len(piece if _by_bytes(settings) else piece.encode()) for piece in pieces]
    lengths += [len(token["content"].encode()) for token in settings["added_tokens"]]
    longest = max(4, *lengths)  # 4: a character that is unknown
    for part in _parts(settings, "normalizer"):
        longest *= SHRINKS.get(part["type"], 1)
    return longest * LOWERED
