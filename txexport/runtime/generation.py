"""Greedy search, row by row to its own end."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from txexport.bundle import read_json
from txexport.errors import BundleError

DEFAULT_NEW_TOKENS = 20
# What changes the tokens of greedy search in transformers, and the values that do not.
NEUTRAL: dict[str, tuple] = {
    "num_beams": (1,),
    "do_sample": (False,),
    "penalty_alpha": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "exponential_decay_length_penalty": (),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "bad_words_ids": ([],),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "forced_decoder_ids": ([],),
    "sequence_bias": ({},),
    "guidance_scale": (1, 1.0),
    "watermarking_config": ({},),
    "stop_strings": ([],),
    "max_time": (),
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
    """What generation_config.json says, or config.json where there is none; as transformers reads them."""
    settings, config = folder / "generation_config.json", read_json(folder / "config.json", missing={})
    found = read_json(settings) if settings.is_file() else config
    values = {key: value for key, value in found.items() if value is not None}
    if config.get("force_bos_token_to_be_generated"):  # BART's name for it in files of 2020
        values.setdefault("forced_bos_token_id", config.get("bos_token_id"))
    for key in (
        "max_length",
        "max_new_tokens",
        "pad_token_id",
        "decoder_start_token_id",
        "forced_bos_token_id",
    ):
        if not isinstance(values.get(key, 0), int):
            raise BundleError(f"{folder}: {key} is {values[key]!r}, expected a whole number")
    eos = _ids(values.get("eos_token_id"))
    start = values.get("decoder_start_token_id", values.get("bos_token_id"))
    ignored = [f"{k}={values[k]}" for k, plain in NEUTRAL.items() if k in values and values[k] not in plain]
    return GenerationConfig(
        eos=eos,
        pad=values.get("pad_token_id", eos[0] if eos else 0),
        decoder_start=start,
        forced_bos=values.get("forced_bos_token_id"),
        forced_eos=_ids(values.get("forced_eos_token_id")),
        max_length=values.get("max_length"),
        max_new_tokens=values.get("max_new_tokens"),
        ignored=tuple(ignored),
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
            if config.forced_bos is not None and len(prompts[i]) + len(rows[i]) == 1:
                tokens[i] = config.forced_bos
            if config.forced_eos and len(rows[i]) == new_tokens[i] - 1:
                tokens[i] = min(config.forced_eos)
            rows[i].append(int(tokens[i]))
            going[i] = tokens[i] not in config.eos and len(rows[i]) < new_tokens[i]
        counts = going.astype(np.int64)
        ids = np.where(going, tokens, config.pad)[:, None]
    return rows
