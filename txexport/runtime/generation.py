"""From prompts to new tokens: read the prompts into a cache, then search."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txexport.errors import InputError
from txexport.runtime.batches import SCORES_AT_ONCE
from txexport.runtime.cache import DynamicCache, StaticCache, open_cache
from txexport.runtime.groups import Chosen, group_beam
from txexport.runtime.logits import processors
from txexport.runtime.penalties import Step
from txexport.runtime.sampling import log_softmax
from txexport.runtime.sampling import sample as draw
from txexport.runtime.search import BeamSettings, Generated, Plan, beam, sample
from txexport.runtime.session import Session
from txexport.runtime.settings import Settings
from txexport.runtime.text import Text, pad

NEW_TOKENS = 20  # where nobody says
CHUNK = 1024  # tokens of a prompt that are read at once
CAPACITY = 64  # smallest cache, in tokens

Adjust = Callable[[Sequence[Sequence[int]], np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Job:
    """Rows to extend.

    `prompts` are what the decoder begins with, `sources` an encoder's tokens where it has some, `cross` what
    its output gives every step. `limit` is the decoder's longest sequence; `strict` makes it an error to ask
    for more.
    """

    session: Session
    cache: str
    prompts: list[list[int]]
    sources: list[list[int]] | None
    cross: dict
    limit: int | None
    text: Callable[[], Text]
    strict: bool = True

    @property
    def words(self) -> int:
        """How many words the decoder knows."""
        return self.session.outputs["logits"].shape[-1]


def run(
    job: Job,
    settings: Settings,
    results: Sequence[Generated],
    rngs: Sequence[np.random.Generator],
    adjust: Adjust | None = None,
    log_probs: bool = False,
) -> Iterator[list[tuple[int, int]]]:
    """Fill `results`, `num_return_sequences` a row; `rngs` are theirs, or with beams one a row.

    Yields after every step the places of results that got a token, and the tokens; of beams, all in the end.
    """
    limits = [new_tokens(len(prompt), settings, job.limit, job.strict) for prompt in job.prompts]
    cache, logits = prefill(job, settings, limits)
    if settings.num_beams > 1:
        best = _beams(job, settings, adjust, limits, rngs, cache, logits)
        for place, found in enumerate(hypothesis for row in best for hypothesis in row):
            results[place].tokens, results[place].score = found.tokens, found.score
            yield [(place, token) for token in found.tokens]
        return
    owners = np.repeat(np.arange(len(job.prompts)), settings.num_return_sequences)
    if settings.num_return_sequences > 1:
        cache.select(owners)
        logits = logits[owners]
    plan = _plan(job, settings, adjust, limits, owners.tolist())

    def choose(scores: np.ndarray, places: np.ndarray) -> np.ndarray:
        return draw(scores, [rngs[i] for i in places]) if settings.do_sample else scores.argmax(axis=1)

    yield from sample(cache, logits, plan, choose, results, log_probs=log_probs)


def _beams(
    job: Job,
    settings: Settings,
    adjust: Adjust | None,
    limits: list[int],
    rngs: Sequence[np.random.Generator],
    cache: StaticCache | DynamicCache,
    logits: np.ndarray,
) -> list[list[Generated]]:
    """The best hypotheses of each row."""
    how = BeamSettings(
        settings.num_beams, settings.length_penalty, settings.early_stopping, settings.num_return_sequences
    )
    owners = list(range(len(job.prompts)))
    if settings.num_beam_groups > 1:
        chosen: Chosen = {}
        plan = _plan(job, settings, adjust, limits, owners, chosen)
        return group_beam(cache, logits, plan, how, settings.num_beam_groups, chosen, settings.pad)
    plan = _plan(job, settings, adjust, limits, owners)
    return beam(cache, logits, plan, how, rngs if settings.do_sample else None)


def _plan(
    job: Job,
    settings: Settings,
    adjust: Adjust | None,
    limits: list[int],
    owners: list[int],
    chosen: Chosen | None = None,
) -> Plan:
    """What rows may do; `owners` are their prompts', `chosen` what groups of beams keep off."""
    found = processors(settings, job.words, job.sources if job.cross else job.prompts, chosen)
    shape = None
    if found or adjust is not None:

        def shape(rows: Sequence[int], new: Sequence[Sequence[int]], scores: np.ndarray) -> np.ndarray:
            mine = [owners[row] for row in rows]
            tokens = [[*job.prompts[owner], *own] for owner, own in zip(mine, new, strict=True)]
            before = [len(job.prompts[owner]) for owner in mine]
            whole = [length + limits[owner] for length, owner in zip(before, mine, strict=True)]
            step = Step(tokens, before, whole, mine)
            for process in found:
                scores = process(step, scores)
            return scores if adjust is None else adjust(tokens, scores)

    stopped = None
    if settings.stop_strings:
        stopped = _stopper(job.text(), settings.stop_strings, [job.prompts[owner] for owner in owners])
    return Plan([limits[owner] for owner in owners], frozenset(settings.eos_token_id), shape, stopped)


def _stopper(
    text: Text, strings: Sequence[str], prompts: Sequence[Sequence[int]]
) -> Callable[[int, Sequence[int]], bool]:
    """Whether the last of a row's new tokens completes a stop string, which may begin in its prompt."""
    window = max(len(string.encode()) for string in strings) + 8  # a token is a byte or more

    def stopped(row: int, tokens: Sequence[int]) -> bool:
        tail = [*prompts[row][-window:], *tokens][-window:]
        before, after = text.decode([tail[:-1], tail], special=True)
        return any(after.count(string) > before.count(string) for string in strings)

    return stopped


def prefill(job: Job, settings: Settings, limits: list[int]) -> tuple[StaticCache | DynamicCache, np.ndarray]:
    """A cache that has read the prompts, and the logits (B,V) of each one's last token."""
    ids, _ = pad(job.prompts, settings.pad)
    counts = np.array([len(prompt) for prompt in job.prompts])
    total = max(len(prompt) + new for prompt, new in zip(job.prompts, limits, strict=True))
    roomy = max(CAPACITY, 2 * ids.shape[1])
    cache = open_cache(job.session, job.cache, job.cross, len(ids), min(total, roomy))
    logits = np.zeros((len(ids), job.words), np.float32)
    for start in range(0, ids.shape[1], CHUNK):
        here = np.clip(counts - start, 0, CHUNK)
        found = cache.step(ids[:, start : start + CHUNK], here)
        logits = np.where((here > 0)[:, None], found, logits)
    return cache, logits


def new_tokens(prompt: int, settings: Settings, limit: int | None, strict: bool) -> int:
    """How many tokens a prompt of that length may grow by.

    Raises InputError where the prompt fills the model's longest sequence, and, if `strict`, where it would go
    beyond it.
    """
    asked, room = settings.max_new_tokens, None if limit is None else limit - prompt
    if room is not None and room < 1:
        raise InputError(f"a prompt of {prompt} tokens leaves no room in the model's {limit}")
    if asked is None and settings.max_length is not None:
        asked = settings.max_length - prompt
        if asked < 1:
            raise InputError(
                f"a prompt of {prompt} tokens leaves no room in max_length={settings.max_length}; choose "
                "max_new_tokens"
            )
    elif asked is not None and strict and room is not None and asked > room:
        raise InputError(f"a prompt of {prompt} tokens and {asked} new ones exceed the model's {limit}")
    asked = NEW_TOKENS if asked is None else asked
    return asked if room is None else min(asked, room)


def score(job: Job, rows: Sequence[Sequence[int]], pad_id: int) -> list[np.ndarray]:
    """The log-probability of each token of each row but the first, given those before it."""
    ids, _ = pad(rows, pad_id)
    counts = np.array([len(row) for row in rows])
    cache = open_cache(job.session, job.cache, job.cross, len(ids), ids.shape[1])
    found = np.zeros((len(ids), ids.shape[1] - 1), np.float32)
    most = max(1, SCORES_AT_ONCE // (len(ids) * job.words))
    for start in range(0, ids.shape[1] - 1, most):
        logits = cache.read(ids[:, start : start + most], np.clip(counts - start, 0, most))  # (B, S, V)
        following = ids[:, start + 1 : start + 1 + most, None]
        logs = log_softmax(logits[:, : following.shape[1]])
        found[:, start : start + most] = np.take_along_axis(logs, following, axis=2)[:, :, 0]
    return [found[row, : count - 1] for row, count in enumerate(counts)]
