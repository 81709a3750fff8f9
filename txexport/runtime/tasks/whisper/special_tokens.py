"""The special tokens of Whisper, and the first tokens of its decoder (Radford et al. 2022, 2.3)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.preprocessing.text import Text, as_texts
from txexport.runtime.tasks.whisper.languages import CODES

PROMPT_TOKEN = "<|startofprev|>"


class SpecialTokens:
    """The special tokens of a speech model, from its generation_config.json."""

    def __init__(self, folder: Path):
        values = read_json(folder / "generation_config.json", missing={})
        self.languages: dict[str, int] = _ids(values, "lang_to_id")
        self.tasks: dict[str, int] = _ids(values, "task_to_id")
        self.no_timestamps: int | None = _own(values, "no_timestamps_token_id", int)
        self.before_prompt: int | None = _own(values, "prev_sot_token_id", int)
        self.max_initial: int | None = _own(values, "max_initial_timestamp_index", int)
        self.own_language: str | None = _own(values, "language", str)
        self.own_task: str = _own(values, "task", str) or "transcribe"

    def begin(self, start: int, task: str, language: int | None, timed: bool = False) -> list[int]:
        """The first tokens: start, then language and task if the model is multilingual.

        Unless `timed`, they end with the token for no timestamps. Raises InputError for a task that the model
        does not know.
        """
        tokens = [start]
        if self.languages:
            if task not in self.tasks:
                raise InputError(f"task '{task}' is not known; expected one of {', '.join(self.tasks)}")
            assert language is not None
            tokens += [language, self.tasks[task]]
        elif task != "transcribe":
            raise InputError(f"task '{task}' needs a model of many languages")
        return tokens if timed or self.no_timestamps is None else [*tokens, self.no_timestamps]

    def language(self, name: str) -> int:
        """The token of a language by code or English name. Raises InputError for one that the model lacks."""
        if not self.languages:
            raise InputError(f"language is '{name}', an option of models of many languages; leave it out")
        code = CODES.get(name.lower(), name.lower())
        token = name if name in self.languages else f"<|{code}|>"
        if token not in self.languages:
            known = ", ".join(code.strip("<|>") for code in sorted(self.languages))
            raise InputError(f"language '{name}' is not known; expected one of {known}")
        return self.languages[token]

    def code(self, language: int | None) -> str | None:
        """The code of a language by its token."""
        codes = {token: code.strip("<|>") for code, token in self.languages.items()}
        return None if language is None else codes.get(language)

    def check(self, vocab_size: int) -> None:
        """Raise BundleError for a special token outside the vocabulary."""
        others = (self.no_timestamps or 0, self.before_prompt or 0)
        tokens = [*self.languages.values(), *self.tasks.values(), *others]
        if not all(0 <= token < vocab_size for token in tokens):
            raise BundleError(
                f"generation_config.json: special tokens run from {min(tokens)} to {max(tokens)}, "
                f"expected 0 to {vocab_size - 1}"
            )

    def likeliest(self, logits: np.ndarray) -> list[int]:
        """The likeliest language tokens (B) by the logits (B,V) after the start token."""
        tokens = np.array(sorted(self.languages.values()))
        return tokens[logits[:, tokens].argmax(axis=1)].tolist()

    def before_history(self, suppressed: Sequence[int]) -> list[int]:
        """The token before the tokens of earlier windows, if the checkpoint has one.

        Where generation_config.json does not name it, it is the last but one of the suppressed tokens.
        """
        if self.before_prompt is not None:
            return [self.before_prompt]
        return list(suppressed[-2:-1])

    def prompt_ids(self, prompt: str, text: Text) -> list[int]:
        """The token ids of a prompt, with the token before it.

        Raises InputError for a prompt with special tokens, and where the model takes no prompts.
        """
        [prompt] = as_texts([prompt])
        start = text.tokenizer.token_to_id(PROMPT_TOKEN)
        start = self.before_prompt if start is None else start
        if start is None:
            raise InputError(f"the tokenizer has no {PROMPT_TOKEN}, which prompts need; leave prompt out")
        tokenizer = text.tokenizer
        ids = tokenizer.encode(f" {prompt.strip()}", add_special_tokens=False).ids
        special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
        if written := special.intersection(ids):
            raise InputError(f"prompt has the special token {tokenizer.id_to_token(min(written))}; remove it")
        return [start, *ids]


def _own(values: Mapping[str, Any], key: str, kind: type) -> Any:
    value = values.get(key)
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise BundleError(f"generation_config.json: {key} is {shown(value)}, expected {kind.__name__}")
    return value


def _ids(values: Mapping[str, Any], key: str) -> dict[str, int]:
    ids = values.get(key) or {}
    if not isinstance(ids, dict) or not all(isinstance(token, int) for token in ids.values()):
        raise BundleError(f"generation_config.json: {key} is {shown(ids)}, expected token ids by name")
    return ids
