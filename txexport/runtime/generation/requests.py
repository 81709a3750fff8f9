"""What a model extends or scores: rows in batches under a budget of tokens, answered in the rows' order."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from txexport.errors import BundleError, InputError
from txexport.runtime.batches import Progress, together
from txexport.runtime.generation import generation
from txexport.runtime.generation.config import Settings
from txexport.runtime.generation.generation import Adjust, Job
from txexport.runtime.generation.kv_cache import CROSS
from txexport.runtime.generation.search import Generated
from txexport.runtime.preprocessing.text import as_list, as_rows, pad

if TYPE_CHECKING:
    from txexport.runtime.model import Model

CACHE_TOKENS = 8192  # of a batch; on a CPU more rows at once are hardly faster, and its cache takes memory


@dataclass(frozen=True)
class Request:
    """Rows to extend, and how: token ids, or of speech what `read` makes spectrograms of.

    `strict` makes it an error to ask for more tokens than the model has room for. `begin` may change what a
    batch's decoder begins with.
    """

    rows: Sequence
    settings: Settings
    strict: bool
    adjust: Adjust | None = None
    log_probs: bool = False
    read: Callable[[Sequence], Sequence | np.ndarray] | None = None
    begin: Callable[[Job, Settings], Job] | None = None


def run(
    model: "Model", request: Request, batch_tokens: int, progress: Progress | None
) -> tuple[list[Generated], Iterator[list[tuple[int, int]]]]:
    """The results, `num_return_sequences` a row, and what fills them batch by batch: iterate it to its end.

    It yields after every step the places of results that got a token, and the tokens; of beams, all at once.
    Every result draws numbers of its own, by the seed and its place, whatever the batches are. Raises
    InputError for rows or a budget that cannot be.
    """
    settings, copies = request.settings, request.settings.num_return_sequences
    rows = checked(model, request.rows, settings)
    results = [Generated() for _ in range(len(rows) * copies)]
    return results, _steps(
        model, request, rows, results, _batches(model, request, rows, batch_tokens), progress
    )


def finished(run: tuple[list[Generated], Iterator]) -> list[Generated]:
    """The results of `run` when all its steps are done."""
    results, steps = run
    for _ in steps:
        pass
    return results


def _steps(
    model: "Model",
    request: Request,
    rows: Sequence,
    results: Sequence[Generated],
    batches: Sequence[Sequence[int]],
    progress: Progress | None,
) -> Iterator[list[tuple[int, int]]]:
    settings, copies, done = request.settings, request.settings.num_return_sequences, 0
    entropy = np.random.SeedSequence(settings.seed).entropy
    for batch in batches:
        places = [row * copies + copy for row in batch for copy in range(copies)]
        mine = [rows[row] for row in batch]
        job = job_of(model, mine if request.read is None else request.read(mine), settings, request.strict)
        job = job if request.begin is None else request.begin(job, settings)
        rngs: list[np.random.Generator] = []
        if settings.do_sample:
            drawing = batch if settings.num_beams > 1 else places
            rngs = [np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=(i,))) for i in drawing]
        own = [results[place] for place in places]
        for step in generation.run(job, settings, own, rngs, request.adjust, request.log_probs):
            yield [(places[place], token) for place, token in step]
        done += len(batch)
        if progress is not None:
            progress(done, len(rows))


def _batches(model: "Model", request: Request, rows: Sequence, batch_tokens: int) -> list[list[int]]:
    """Which rows run together: each costs the tokens that its caches may hold, with those of the encoder."""
    settings = request.settings
    limit, copies = model.manifest.limits["decoder"], max(settings.num_beams, settings.num_return_sequences)
    crossed = "encoder_model" in model.sessions
    if model.hears:
        lengths = [model.manifest.spec["encoder"]["embedding"]["length"]] * len(rows)
    else:
        lengths = [len(row) for row in rows]
    costs = []
    for length in lengths:
        new = generation.new_tokens(1 if crossed else length, settings, limit, request.strict)
        costs.append((length + new) * copies)
    return list(together(lengths, costs, batch_tokens))


def checked(model: "Model", rows: Sequence, settings: Settings) -> Sequence:
    """The rows, of token ids as lists. Raises InputError for a task that does not generate, and for bad rows.

    Warns of what the checkpoint asks for in vain.
    """
    if model.manifest.cache is None:
        raise InputError(f"task '{model.manifest.task}' does not generate; export with another --task")
    if settings.ignored:
        warnings.warn(f"generation leaves out {', '.join(settings.ignored)}", stacklevel=4)
    rows = as_list(rows)
    if not rows or model.hears:
        return rows
    if "encoder_model" not in model.sessions:
        return as_rows(rows, model.sessions["model"].outputs["logits"].shape[-1])
    found = as_rows(rows, model.manifest.spec["encoder"]["embedding"]["vocab_size"])  # not the decoder's
    model.check_length(max(map(len, found)), model.manifest.limits["encoder"])
    return found


def job_of(model: "Model", rows: Sequence | np.ndarray, settings: Settings, strict: bool) -> Job:
    """A batch of checked rows, with what an encoder makes of them. Raises InputError for bad spectrograms."""
    crossed = "encoder_model" in model.sessions
    session = model.sessions["decoder_model" if crossed else "model"]
    limit, cache = model.manifest.limits["decoder"], model.manifest.cache
    assert cache is not None
    prompts, sources, cross = list(rows), None, {}
    if crossed:
        if settings.decoder_start is None:
            raise BundleError("config.json has no decoder_start_token_id, so generation cannot start")
        if settings.decoder_start >= (words := session.outputs["logits"].shape[-1]):
            raise InputError(f"decoder_start_token_id is {settings.decoder_start}, expected 0 to {words - 1}")
        _check_start(model, settings.decoder_start)
        cross = _encode(model, rows, settings)
        sources = None if model.hears else list(rows)
        prompts = [[settings.decoder_start]] * len(rows)
    return Job(session, cache, prompts, sources, cross, limit, lambda: model.text, strict)


def _check_start(model: "Model", start: int) -> None:
    """Raise InputError for a start that is padding, where padding has a position of its own (M2M-100)."""
    position = model.manifest.spec["encoder"]["embedding"].get("position") or {}
    if position.get("pad_token_id") == start:
        raise InputError(
            f"decoder_start_token_id is {start}, the padding, whose position is not supported; choose another"
        )


def _encode(model: "Model", rows: Sequence | np.ndarray, settings: Settings) -> dict:
    """Run the encoder: what it leaves for the decoder's steps, by name."""
    encoder, rest = model.sessions["encoder_model"], {}
    port = next(iter(encoder.inputs.values()))
    if port.name == "input_ids":
        words = model.vocabulary("encoder_model")
        ids, mask = pad(list(rows), settings.pad if settings.pad < words else 0)
        values = {"input_ids": encoder.value(ids), "attention_mask": encoder.value(mask)}
        rest = {"encoder_attention_mask": values["attention_mask"]}
    else:
        values = {port.name: encoder.value(_stacked(rows, port.shape))}
    wanted = [name for name in encoder.outputs if CROSS in name]
    outputs = encoder.run_values(values, wanted)
    return rest | {name.replace("present", "past_key_values", 1): value for name, value in outputs.items()}


def _stacked(rows: Sequence | np.ndarray, shape: Sequence[int | str]) -> np.ndarray:
    """Spectrograms of one shape as a batch. Raises InputError for any other."""
    try:
        arrays = [np.asarray(row, np.float32) for row in rows]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"a spectrogram is no array of numbers, expected {tuple(shape[1:])}") from None
    for array in arrays:
        if list(array.shape) != list(shape[1:]):
            raise InputError(f"a spectrogram is {array.shape}, expected {tuple(shape[1:])}")
    return np.stack(arrays)
