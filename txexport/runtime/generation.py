"""Greedy search, row by row to its own end."""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txexport.errors import BundleError

DEFAULT_NEW_TOKENS = 20
NEUTRAL = {
    "num_beams": 1,
    "do_sample": False,
    "repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "bad_words_ids": [],
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "sequence_bias": {},
}


@dataclass(frozen=True)
class GenerationConfig:
    """What a checkpoint's own files say of generation; `ignored` is what greedy search leaves out."""

    eos: tuple[int, ...]
    pad: int
    decoder_start: int | None
    forced_bos: int | None
    forced_eos: tuple[int, ...]
    max_length: int | None
    max_new_tokens: int | None
    ignored: tuple[str, ...]


def read_config(folder: Path) -> GenerationConfig:
    """generation_config.json where there is one, and config.json for what it leaves out."""
    values: dict = {}
    for name in ("config.json", "generation_config.json"):
        try:
            values |= {k: v for k, v in json.loads((folder / name).read_text()).items() if v is not None}
        except FileNotFoundError:
            continue
        except ValueError as error:
            raise BundleError(f"{folder / name} cannot be read as JSON: {error}") from None
    eos = _ids(values.get("eos_token_id"))
    start = values.get("decoder_start_token_id", values.get("bos_token_id"))
    return GenerationConfig(
        eos=eos,
        pad=values.get("pad_token_id", eos[0] if eos else 0),
        decoder_start=start,
        forced_bos=values.get("forced_bos_token_id"),
        forced_eos=_ids(values.get("forced_eos_token_id")),
        max_length=values.get("max_length"),
        max_new_tokens=values.get("max_new_tokens"),
        ignored=tuple(f"{k}={values[k]}" for k, plain in NEUTRAL.items() if values.get(k, plain) != plain),
    )


def _ids(value: int | Sequence[int] | None) -> tuple[int, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, int) else tuple(value)


def greedy(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    prompts: Sequence[Sequence[int]],
    ids: np.ndarray,
    new_tokens: Sequence[int],
    config: GenerationConfig,
    seq2seq: bool,
) -> list[list[int]]:
    """Extend each of `prompts`, in `ids` (B,S) padded on the right, by the likeliest token at a time.

    A row ends after an end-of-sequence token, which it keeps, or after its number of `new_tokens`. `step`
    takes new ids (B,S) and the number of real ones a row, and gives logits (B,V).
    """
    if config.ignored:
        warnings.warn(f"greedy search leaves out {', '.join(config.ignored)}", stacklevel=3)
    counts = np.array([len(prompt) for prompt in prompts])
    rows: list[list[int]] = [[] for _ in prompts]
    going = np.array([n > 0 for n in new_tokens])
    while going.any():
        logits = step(ids, counts)
        tokens = logits.argmax(axis=1)
        for i in np.flatnonzero(going).tolist():
            if seq2seq and not rows[i] and config.forced_bos is not None:
                tokens[i] = config.forced_bos
            if config.forced_eos and len(rows[i]) == new_tokens[i] - 1:
                tokens[i] = config.forced_eos[0]
            rows[i].append(int(tokens[i]))
            going[i] = tokens[i] not in config.eos and len(rows[i]) < new_tokens[i]
        counts = going.astype(np.int64)
        ids = np.where(going, tokens, config.pad)[:, None]
    return rows
