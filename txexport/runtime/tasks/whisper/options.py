"""Options of transcripts, with the names of transformers' generate for Whisper."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from txexport.bundle import read_json
from txexport.errors import BundleError, InputError, shown
from txexport.runtime.preprocessing.sound_pieces import check_piece
from txexport.runtime.tasks.transcript import TIMESTAMPS
from txexport.runtime.tasks.whisper.fallback import Thresholds

FIRST, ALL = "first-segment", "all-segments"
FROM_FILE = (
    "condition_on_prev_tokens",
    "compression_ratio_threshold",
    "logprob_threshold",
    "no_speech_threshold",
)


@dataclass(frozen=True)
class TranscriptOptions:
    """Options of `transcribe` beyond those of generation.

    `timestamps` is "segment", "word" or None. `prompt` is a text before the transcript, of the first window
    or with `prompt_condition_type` "all-segments" of every one. With `condition_on_prev_tokens` a window
    reads the tokens of earlier ones. `temperature` is 0 for greedy or beam search, above 0 for sampling; of
    several, a window takes the first whose tokens pass the thresholds. With `chunk_length_s` above 0, a sound
    is read in pieces of as many seconds, each alone; `stride_length_s` seconds on each side, by default a
    sixth, are read with the piece beside it too, and the tokens of both are merged.
    """

    timestamps: str | None = None
    prompt: str | None = None
    prompt_condition_type: str = FIRST
    condition_on_prev_tokens: bool = False
    temperature: Any = None
    compression_ratio_threshold: float | None = None
    logprob_threshold: float | None = None
    no_speech_threshold: float | None = None
    chunk_length_s: float | None = None
    stride_length_s: Any = None

    def __post_init__(self) -> None:
        if self.timestamps is not None and self.timestamps not in TIMESTAMPS:
            expected = " or ".join(map(repr, TIMESTAMPS))
            raise InputError(f"timestamps is {shown(self.timestamps)}, expected {expected} or None")
        if self.prompt is not None and not isinstance(self.prompt, str):
            raise InputError(f"prompt is {shown(self.prompt)}, expected a text or None")
        if self.prompt_condition_type not in (FIRST, ALL):
            kind = shown(self.prompt_condition_type)
            raise InputError(f"prompt_condition_type is {kind}, expected {FIRST!r} or {ALL!r}")
        if not isinstance(self.condition_on_prev_tokens, bool):
            kind = shown(self.condition_on_prev_tokens)
            raise InputError(f"condition_on_prev_tokens is {kind}, expected true or false")
        if self.prompt_condition_type == ALL and not self.condition_on_prev_tokens:
            raise InputError(f"prompt_condition_type={ALL!r} needs condition_on_prev_tokens=True")
        for name in FROM_FILE[1:]:
            value = getattr(self, name)
            if value is not None and not _is_number(value):
                raise InputError(f"{name} is {shown(value)}, expected a number or None")
        if self.no_speech_threshold is not None and self.logprob_threshold is None:
            raise InputError("no_speech_threshold needs logprob_threshold: it skips unlikely tokens only")
        check_piece(self.chunk_length_s)
        if self.stride_length_s is not None and not self.chunk_length_s:
            raise InputError("stride_length_s needs chunk_length_s, the length of the pieces")
        for value in self.temperatures:
            if not _is_number(value) or not 0 <= value < float("inf"):
                raise InputError(f"temperature is {shown(value)}, expected numbers of at least 0")

    @property
    def temperatures(self) -> tuple[float, ...]:
        """The temperatures in order; empty where none is given."""
        if self.temperature is None:
            return ()
        if isinstance(self.temperature, list | tuple):
            if not self.temperature:
                raise InputError("temperature is empty, expected one number or more")
            return tuple(self.temperature)
        return (self.temperature,)

    @property
    def thresholds(self) -> Thresholds:
        """The limits beyond which a window is decoded again or skipped."""
        return Thresholds(self.compression_ratio_threshold, self.logprob_threshold, self.no_speech_threshold)


NAMES = tuple(field.name for field in fields(TranscriptOptions))


def read_options(folder: Path, options: dict[str, Any]) -> TranscriptOptions:
    """The options over those of the checkpoint. Raises InputError, BundleError for values of the file."""
    values = read_json(folder / "generation_config.json", missing={})
    settings = {name: values[name] for name in FROM_FILE if values.get(name) is not None}
    try:
        TranscriptOptions(**settings)
    except InputError as error:
        raise BundleError(f"generation_config.json: {error}") from None
    return TranscriptOptions(**settings | options)


def _is_number(value: object) -> bool:
    """Tell whether a value is a number, also of NumPy, that a float can hold."""
    if isinstance(value, float | np.floating):
        return not math.isnan(value)
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and abs(int(value)) < 10**300
