"""The plan of a generation: its limits, stop strings, and the processing of scores."""

from collections.abc import Callable, Sequence
from itertools import takewhile

import numpy as np

from txexport.errors import InputError
from txexport.runtime.generation.group_beam_search import Chosen
from txexport.runtime.generation.logits_processors import processors
from txexport.runtime.generation.penalties import Step
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.generation.search import Plan
from txexport.runtime.preprocessing.text import Text


def plan_of(
    request: GenerationRequest, limits: list[int], owners: list[int], chosen: Chosen | None = None
) -> Plan:
    """Limits, stopping and score processing of rows; `chosen` has the tokens of other beam groups."""
    config, prompts, logits_processor = request.config, request.decoder_input_ids, request.logits_processor
    sources = request.encoder_input_ids
    rules = [one for one in (request.constraint, request.rule) if one is not None]
    changes = processors(config, request.vocab_size, sources, chosen, rules)
    shape = None
    if changes or logits_processor is not None:

        def shape(rows: Sequence[int], new: Sequence[Sequence[int]], scores: np.ndarray) -> np.ndarray:
            mine = [owners[row] for row in rows]
            tokens = [[*prompts[owner], *own] for owner, own in zip(mine, new, strict=True)]
            before = [len(prompts[owner]) for owner in mine]
            totals = [length + limits[owner] for length, owner in zip(before, mine, strict=True)]
            step = Step(tokens, before, totals, mine)
            with np.errstate(all="ignore"):  # what comes of it is looked at below
                for process in changes:
                    scores = process(step, scores)
            if not (scores.max(axis=1) < np.inf).all():  # NaN is not below
                raise InputError("options make scores that are NaN or infinity; choose smaller numbers")
            if logits_processor is not None:
                scores = _processed(logits_processor(tokens, scores), scores.shape)
            if config.num_beams == 1 and np.isneginf(scores.max(axis=1)).any():  # a beam may be at its end
                raise InputError("options rule out every token; choose fewer of them")
            return scores

    stopped = None
    if config.stop_strings:
        text = request.bundle.files.text
        read = [prompts[owner] if request.stops_in_prompts else [] for owner in owners]
        stopped = _stopper(text, config.stop_strings, read)
    return Plan([limits[owner] for owner in owners], frozenset(config.eos_token_id), shape, stopped)


def _processed(scores: object, shape: tuple[int, ...]) -> np.ndarray:
    """The scores (R,V) of `logits_processor`; of a token that it forces 0, so that beams can add them.

    Raises InputError for no numbers, and for more than one forced token of a row.
    """
    if not isinstance(scores, np.ndarray) or scores.shape != shape or scores.dtype.kind != "f":
        what = f"{scores.dtype} {scores.shape}" if isinstance(scores, np.ndarray) else type(scores).__name__
        raise InputError(f"logits_processor gave {what}, expected an array of floats {shape}")
    highest = scores.max(axis=1)
    if (highest < np.inf).all():
        return scores
    forced = scores == np.inf
    if np.isnan(highest).any() or (forced.sum(axis=1) > 1).any():
        raise InputError(
            "logits_processor makes scores that are NaN, or +inf for several tokens of a row; "
            "give large finite numbers"
        )
    alone = np.where(forced, np.float32(0), np.float32(-np.inf))
    return np.where(forced.any(axis=1, keepdims=True), alone, scores)


def _stopper(
    text: Text, strings: Sequence[str], prompts: Sequence[Sequence[int]]
) -> Callable[[int, Sequence[int]], bool]:
    """A function that tells whether a row's last token completes a stop string."""
    window = max(len(string.encode()) for string in strings) + 8  # a token is a byte or more

    def stopped(row: int, tokens: Sequence[int]) -> bool:
        tail = [*prompts[row][-window:], *tokens][-window:]
        before, after = text.decode([tail[:-1], tail], special=True)
        old = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        return any(after.find(string, max(0, old - len(string) + 1)) >= 0 for string in strings)

    return stopped
