"""From prompts to new tokens: read the prompts into a cache, then search."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txexport.errors import InputError
from txexport.runtime.cache import DynamicCache, StaticCache, open_cache
from txexport.runtime.logits import processors
from txexport.runtime.penalties import Step
from txexport.runtime.sampling import sample as draw
from txexport.runtime.search import BeamSettings, Generated, Plan, beam, sample
from txexport.runtime.session import Session
from txexport.runtime.settings import Settings
from txexport.runtime.text import Text, pad

NEW_TOKENS = 20  # where nobody says
CHUNK = 1024  # tokens of a prompt that are read at once
SCORED = 128  # tokens whose logits are held at once
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
    job: Job, settings: Settings, adjust: Adjust | None = None, log_probs: bool = False
) -> tuple[list[Generated], Iterator[list[tuple[int, int]]]]:
    """The results, `num_return_sequences` a row, and what fills them: iterate it to its end.

    It yields after every step the results that got a token, and the tokens; of beams, all in the end.
    """
    copies = settings.num_return_sequences
    limits = [new_tokens(len(prompt), settings, job.limit, job.strict) for prompt in job.prompts]
    rng = np.random.default_rng(settings.seed)
    results = [Generated() for _ in range(len(job.prompts) * copies)]
    if settings.num_beams > 1:
        return results, _beams(job, settings, adjust, limits, rng, results)
    return results, _samples(job, settings, adjust, limits, rng, results, log_probs)


def _samples(
    job: Job,
    settings: Settings,
    adjust: Adjust | None,
    limits: list[int],
    rng: np.random.Generator,
    results: list[Generated],
    log_probs: bool,
) -> Iterator[list[tuple[int, int]]]:
    copies = settings.num_return_sequences
    cache, logits = prefill(job, settings, limits)
    owners = np.repeat(np.arange(len(job.prompts)), copies)
    if copies > 1:
        cache.select(owners)
        logits = logits[owners]
    plan = _plan(job, settings, adjust, limits, owners.tolist())

    def choose(scores: np.ndarray) -> np.ndarray:
        return draw(scores, rng) if settings.do_sample else scores.argmax(axis=1)

    yield from sample(cache, logits, plan, choose, results, log_probs=log_probs)


def _beams(
    job: Job,
    settings: Settings,
    adjust: Adjust | None,
    limits: list[int],
    rng: np.random.Generator,
    results: list[Generated],
) -> Iterator[list[tuple[int, int]]]:
    if settings.num_beam_groups > 1:
        raise InputError("num_beam_groups above 1 is not supported")
    copies = settings.num_return_sequences
    cache, logits = prefill(job, settings, limits)
    plan = _plan(job, settings, adjust, limits, list(range(len(job.prompts))))
    how = BeamSettings(settings.num_beams, settings.length_penalty, settings.early_stopping, copies)
    best = beam(cache, logits, plan, how, rng if settings.do_sample else None)
    for place, found in enumerate(hypothesis for row in best for hypothesis in row):
        results[place].tokens, results[place].score = found.tokens, found.score
        yield [(place, token) for token in found.tokens]


def _plan(job: Job, settings: Settings, adjust: Adjust | None, limits: list[int], owners: list[int]) -> Plan:
    """What rows may do; `owners` are their prompts'."""
    found = processors(settings, job.words, job.sources if job.cross else job.prompts)
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
    for start in range(0, ids.shape[1] - 1, SCORED):
        part = ids[:, start : start + SCORED]
        logits = cache.read(part, np.clip(counts - start, 0, SCORED))  # (B, S, V)
        following = ids[:, start + 1 : start + 1 + SCORED]
        logits = logits[:, : following.shape[1]]
        chosen = np.take_along_axis(logits, following[:, :, None], axis=2)[:, :, 0]
        found[:, start : start + SCORED] = chosen - _log_sum(logits)
    return [found[row, : count - 1] for row, count in enumerate(counts)]


def _log_sum(logits: np.ndarray) -> np.ndarray:
    """The logarithm of the sum of exponentials over words: (B,S,V) -> (B,S)."""
    highest = logits.max(axis=2)
    return highest + np.log(np.exp(logits - highest[:, :, None]).sum(axis=2))
