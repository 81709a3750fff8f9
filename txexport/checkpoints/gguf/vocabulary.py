"""A GGUF file's tokens, from its `tokenizer.ggml.*` metadata."""

from dataclasses import dataclass

import numpy as np

from txexport.checkpoints.gguf.metadata import Metadata
from txexport.errors import CheckpointError, shown

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # token types, as in SentencePiece
MOST_TOKENS = 4_000_000


@dataclass(frozen=True)
class Vocabulary:
    """The tokens in the metadata: spelling, types and scores, by id."""

    metadata: Metadata
    tokens: list[str]
    types: list[int]
    scores: list[float]

    @classmethod
    def of(cls, metadata: Metadata) -> "Vocabulary | None":
        """The vocabulary of a file; None if it has no tokenizer. Raises CheckpointError if it is damaged."""
        if metadata.value("tokenizer.ggml.model", str, "none") in ("none", "no_vocab"):
            return None
        tokens = strings(metadata, "tokens")
        with np.errstate(invalid="ignore"):  # for numbers that are no types
            types = _numbers(metadata, "token_type", tokens, NORMAL).astype(np.int64).tolist()
        return cls(metadata, tokens, types, _numbers(metadata, "scores", tokens, 0.0).tolist())

    @property
    def ids(self) -> dict[str, int]:
        """Every used token with its id. Raises CheckpointError for two tokens of one spelling."""
        result: dict[str, int] = {}
        for number, (token, kind) in enumerate(zip(self.tokens, self.types, strict=True)):
            if kind == UNUSED and token == f"[PAD{number}]":
                continue  # padding of the embedding matrix
            if result.setdefault(token, number) != number:
                raise CheckpointError(f"{self.metadata.file} has two tokens {shown(token)}, expected one")
        return result

    def spelt(self, name: str) -> str | None:
        """The spelling of a special token, by the name before `_token_id`; None if there is none."""
        number = self.metadata.token(name)
        if number is None:
            return None
        if not 0 <= number < len(self.tokens):
            count = len(self.tokens)
            raise CheckpointError(
                f"{self.metadata.file}: '{name}_token_id' is {number}, but there are {count} tokens"
            )
        return self.tokens[number]

    def adds(self, name: str, default: bool) -> bool:
        """Tell whether the special token `name`, bos or eos, is added to texts."""
        added = self.metadata.value(f"tokenizer.ggml.add_{name}_token", bool, default)
        return added and self.spelt(name) is not None

    @property
    def template(self) -> str | None:
        """The chat template."""
        template = self.metadata.values.get("tokenizer.chat_template")
        return template if isinstance(template, str) else None


def strings(metadata: Metadata, name: str) -> list[str]:
    values = metadata.values.get(f"tokenizer.ggml.{name}")
    if not isinstance(values, list) or not 0 < len(values) <= MOST_TOKENS:
        raise CheckpointError(f"{metadata.file}: 'tokenizer.ggml.{name}' is no list of strings")
    return values


def _numbers(metadata: Metadata, name: str, tokens: list[str], default: float) -> np.ndarray:
    values = metadata.values.get(f"tokenizer.ggml.{name}")
    if values is None:
        return np.full(len(tokens), default)
    if not isinstance(values, np.ndarray) or len(values) != len(tokens) or not np.isfinite(values).all():
        raise CheckpointError(f"{metadata.file}: 'tokenizer.ggml.{name}' is not a number for each token")
    return values
