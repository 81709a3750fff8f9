"""A checkpoint's tokenizer.json, and the models that classes of transformers 5 make of its vocabulary.

A vocabulary may have 250,000 words, and each conversion of it takes seconds. It is parsed once, by the
tokenizers library and as JSON, and the library's model is kept if it differs in options only.
"""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE, Model, Unigram, WordPiece
from tokenizers.processors import PostProcessor

VOCABULARY = ("vocab", "merges")
# Options of the library's models and their defaults, as JSON.
BPE_OPTIONS = {
    "dropout": None,
    "unk_token": None,
    "fuse_unk": False,
    "byte_fallback": False,
    "ignore_merges": False,
    "end_of_word_suffix": "",
}
WORD_PIECE = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}


@dataclass
class TokenizerFile:
    """A tokenizer.json as the library reads it, and as JSON; `model` is the model of a class as JSON."""

    values: Mapping[str, Any]
    tokenizer: Tokenizer
    model: dict[str, Any]

    @classmethod
    def read(cls, text: str) -> "TokenizerFile":
        """Parse the file's text. Raises the library's exceptions."""
        tokenizer, values = Tokenizer.from_str(text), json.loads(text)
        kind = type(tokenizer.model).__name__  # which older files do not name
        return cls(values, tokenizer, {**values["model"], "type": kind})

    def bpe(self, **options: Any) -> Model:
        """Make a BPE model of the vocabulary; omitted options have the library's defaults."""
        options = BPE_OPTIONS | options
        model = self.tokenizer.model
        if isinstance(model, BPE) and not model.continuing_subword_prefix:
            self.model |= options
            for name, value in options.items():
                setattr(model, name, value)
            return model
        self.model = {"type": "BPE", **options, "vocab": self.words, "merges": self.merges}
        return BPE(self.words, self.merges, **options)

    def word_piece(self, unk_token: str) -> Model:
        """Make a WordPiece model of the vocabulary."""
        options = WORD_PIECE | {"unk_token": unk_token}
        model = self.tokenizer.model
        if isinstance(model, WordPiece):
            self.model |= options
            for name, value in options.items():
                setattr(model, name, value)
            return model
        self.model = {"type": "WordPiece", **options, "vocab": self.words}
        return WordPiece(self.words, unk_token=unk_token)

    def unigram(self, unk_id: int, words: list[tuple[str, float]] | None = None) -> Model:
        """Make a unigram model of the vocabulary, or of other `words` with their scores."""
        model = {"type": "Unigram", "unk_id": unk_id, "byte_fallback": False}
        options = {name: value for name, value in self.model.items() if name not in VOCABULARY}
        if words is None and {"byte_fallback": False, **options} == model:
            return self.tokenizer.model
        words = self.scored if words is None else words
        self.model = {**model, "vocab": words}
        return Unigram(words, unk_id=unk_id, byte_fallback=False)

    @property
    def words(self) -> dict[str, int]:
        """The vocabulary by word; in a list, ids are the positions."""
        vocab = self.values["model"]["vocab"]
        if isinstance(vocab, list):
            return {word[0] if isinstance(word, list) else word: place for place, word in enumerate(vocab)}
        return dict(vocab)

    @property
    def scored(self) -> list[tuple[str, float]]:
        """The vocabulary of a unigram model."""
        return [(word, score) for word, score in self.values["model"]["vocab"]]

    @property
    def merges(self) -> list[tuple[str, str]]:
        """The merges of a BPE model, in order."""
        pairs = self.values["model"].get("merges") or []
        split = [pair.split(" ") if isinstance(pair, str) else pair for pair in pairs]
        return [(first, second) for first, second in split]

    @property
    def charsmap(self) -> bytes | None:
        """SentencePiece's table of characters, if the normalizer has one."""
        normalizer = self.values.get("normalizer") or {}
        for one in normalizer.get("normalizers", [normalizer]):
            if one.get("type") == "Precompiled":
                return base64.b64decode(one["precompiled_charsmap"])
        return None

    @property
    def post_processor(self) -> PostProcessor | None:
        """The part that adds special tokens."""
        return self.tokenizer.post_processor
