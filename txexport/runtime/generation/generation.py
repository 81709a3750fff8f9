"""From prompts to new tokens: read the prompts into a cache, then search."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from txexport.errors import InputError
from txexport.runtime.batches import SCORES_AT_ONCE
from txexport.runtime.generation.config import GenerationConfig
from txexport.runtime.generation.group_beam_search import Chosen, group_beam
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache, check_room, open_cache
from txexport.runtime.generation.logits_processors import processors
from txexport.runtime.generation.penalties import Step
from txexport.runtime.generation.sampling import log_softmax
from txexport.runtime.generation.sampling import sample as draw
from txexport.runtime.generation.search import BeamSettings, Decoder, Generated, Plan, beam, sample
from txexport.runtime.preprocessing.text import Text, pad
from txexport.runtime.session import Session, finite

NEW_TOKENS = 20  # where nobody says
CHUNK = 1024  # tokens of a prompt that are read at once
CAPACITY = 64  # smallest cache, in tokens

LogitsProcessor = Callable[[Sequence[Sequence[int]], np.ndarray], np.ndarray]


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
    config: GenerationConfig,
    results: Sequence[Generated],
    rngs: Sequence[np.random.Generator],
    logits_processor: LogitsProcessor | None = None,
    log_probs: bool = False,
) -> Iterator[list[tuple[int, int]]]:
    """Fill `results`, `num_return_sequences` a row; `rngs` are theirs, or with beams one a row.

    Yields after every step the places of results that got a token, and the tokens; of beams, all in the end.
    """
    limits = [new_tokens(len(prompt), config, job.limit, job.strict) for prompt in job.prompts]
    _check(job, config, limits, logits_processor)
    cache, logits = prefill(job, config, limits)
    if config.num_beams > 1:
        best = _beams(job, config, logits_processor, limits, rngs, _decoder(cache, config), logits)
        for place, found in enumerate(hypothesis for row in best for hypothesis in row):
            results[place].tokens, results[place].score = found.tokens, found.score
            yield [(place, token) for token in found.tokens]
        return
    owners = np.repeat(np.arange(len(job.prompts)), config.num_return_sequences)
    if config.num_return_sequences > 1:
        cache.select(owners)
        logits = logits[owners]
    plan = _plan(job, config, logits_processor, limits, owners.tolist())

    def choose(scores: np.ndarray, places: np.ndarray) -> np.ndarray:
        return draw(scores, [rngs[i] for i in places]) if config.do_sample else scores.argmax(axis=1)

    yield from sample(_decoder(cache, config), logits, plan, choose, results, log_probs=log_probs)


def _beams(
    job: Job,
    config: GenerationConfig,
    logits_processor: LogitsProcessor | None,
    limits: list[int],
    rngs: Sequence[np.random.Generator],
    cache: Decoder,
    logits: np.ndarray,
) -> list[list[Generated]]:
    """The best hypotheses of each row."""
    how = BeamSettings(
        config.num_beams, config.length_penalty, config.early_stopping, config.num_return_sequences
    )
    owners = list(range(len(job.prompts)))
    if config.num_beam_groups > 1:
        chosen: Chosen = {}
        plan = _plan(job, config, logits_processor, limits, owners, chosen)
        return group_beam(cache, logits, plan, how, config.num_beam_groups, chosen, _padding(job, config))
    plan = _plan(job, config, logits_processor, limits, owners)
    return beam(cache, logits, plan, how, rngs if config.do_sample else None)


def _plan(
    job: Job,
    config: GenerationConfig,
    logits_processor: LogitsProcessor | None,
    limits: list[int],
    owners: list[int],
    chosen: Chosen | None = None,
) -> Plan:
    """What rows may do; `owners` are their prompts', `chosen` what groups of beams keep off."""
    found = processors(config, job.words, job.sources if job.cross else job.prompts, chosen)
    shape = None
    if found or logits_processor is not None:

        def shape(rows: Sequence[int], new: Sequence[Sequence[int]], scores: np.ndarray) -> np.ndarray:
            mine = [owners[row] for row in rows]
            tokens = [[*job.prompts[owner], *own] for owner, own in zip(mine, new, strict=True)]
            before = [len(job.prompts[owner]) for owner in mine]
            whole = [length + limits[owner] for length, owner in zip(before, mine, strict=True)]
            step = Step(tokens, before, whole, mine)
            with np.errstate(all="ignore"):  # what comes of it is looked at below
                for process in found:
                    scores = process(step, scores)
            if not (scores.max(axis=1) < np.inf).all():  # NaN is not below
                raise InputError("options make scores that are NaN or infinity; choose smaller numbers")
            return (
                scores
                if logits_processor is None
                else _processed(logits_processor(tokens, scores), scores.shape)
            )

    stopped = None
    if config.stop_strings:
        stopped = _stopper(job.text(), config.stop_strings, [job.prompts[owner] for owner in owners])
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
    """Whether the last of a row's new tokens completes a stop string, which may begin in its prompt."""
    window = max(len(string.encode()) for string in strings) + 8  # a token is a byte or more

    def stopped(row: int, tokens: Sequence[int]) -> bool:
        tail = [*prompts[row][-window:], *tokens][-window:]
        before, after = text.decode([tail[:-1], tail], special=True)
        return any(after.count(string) > before.count(string) for string in strings)

    return stopped


def prefill(
    job: Job, config: GenerationConfig, limits: list[int]
) -> tuple[StaticCache | DynamicCache, np.ndarray]:
    """A cache that has read the prompts, and the logits (B,V) of each one's last token."""
    ids, _ = pad(job.prompts, _padding(job, config))
    counts = np.array([len(prompt) for prompt in job.prompts])
    total = max(len(prompt) + new for prompt, new in zip(job.prompts, limits, strict=True))
    roomy = max(CAPACITY, 2 * ids.shape[1])
    cache = open_cache(job.session, job.cache, job.cross, len(ids), min(total, roomy))
    logits = np.zeros((len(ids), job.words), np.float32)
    for start in range(0, ids.shape[1], CHUNK):
        here = np.clip(counts - start, 0, CHUNK)
        found = cache.step(ids[:, start : start + CHUNK], here)
        logits = np.where((here > 0)[:, None], found, logits)
    if not config.remove_invalid_values:
        finite({"logits": logits})
    return cache, logits


def _padding(job: Job, config: GenerationConfig) -> int:
    """What fills a batch: any token that the decoder knows, since it is masked."""
    return config.pad if config.pad < job.words else 0


def _check(
    job: Job, config: GenerationConfig, limits: Sequence[int], logits_processor: LogitsProcessor | None
) -> None:
    """Raise InputError for what memory does not hold, and for options that these prompts make impossible."""
    if logits_processor is not None and not callable(logits_processor):
        raise InputError(
            f"logits_processor is a {type(logits_processor).__name__}, "
            "expected a function of tokens and scores"
        )
    copies, longest = max(config.num_beams, config.num_return_sequences), max(limits)
    most = max(map(len, job.prompts)) + min(longest, CAPACITY)
    beams = longest * 8 * 6 if config.num_beams > 1 else 0  # tokens of those that go on, end and may come
    check_room(job.session, len(job.prompts) * copies, most, job.words * 4 * 3 + beams)
    if config.num_beams > 1:
        _check_penalty(config.length_penalty, longest)


def _check_penalty(penalty: float, longest: int) -> None:
    """Raise InputError where no float32 holds what scores of `longest` tokens are divided by."""
    try:
        with np.errstate(over="ignore", under="ignore"):
            divisor = float(np.float32(longest**penalty))
    except OverflowError:
        divisor = math.inf
    if not 0 < divisor < math.inf:
        raise InputError(f"length_penalty is {penalty:g}, which {longest} tokens raise beyond all numbers")


@dataclass(frozen=True)
class _Finite:
    """A cache whose logits are looked at."""

    cache: StaticCache | DynamicCache

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """See search.Decoder."""
        logits = self.cache.step(input_ids, counts)
        finite({"logits": logits})
        return logits

    def select(self, rows: np.ndarray) -> None:
        """See search.Decoder."""
        self.cache.select(rows)

    def reorder(self, rows: np.ndarray) -> None:
        """See search.Decoder."""
        self.cache.reorder(rows)


def _decoder(cache: StaticCache | DynamicCache, config: GenerationConfig) -> Decoder:
    """The cache, whose logits are finite unless `remove_invalid_values` makes them so."""
    return cache if config.remove_invalid_values else _Finite(cache)


def new_tokens(prompt: int, config: GenerationConfig, limit: int | None, strict: bool) -> int:
    """How many tokens a prompt of that length may grow by.

    Raises InputError where the prompt fills the model's longest sequence, and, if `strict`, where it would go
    beyond it.
    """
    asked, room = config.max_new_tokens, None if limit is None else limit - prompt
    if room is not None and room < 1:
        raise InputError(f"a prompt of {prompt} tokens leaves no room in the model's {limit}")
    if asked is None and config.max_length is not None:
        asked = config.max_length - prompt
        if asked < 1:
            raise InputError(
                f"a prompt of {prompt} tokens leaves no room in max_length={config.max_length}; choose "
                "max_new_tokens"
            )
    elif asked is not None and strict and room is not None and asked > room:
        raise InputError(f"a prompt of {prompt} tokens and {asked} new ones exceed the model's {limit}")
    asked = NEW_TOKENS if asked is None else asked
    return asked if room is None else min(asked, room)


def score(job: Job, rows: Sequence[Sequence[int]], pad_id: int) -> list[np.ndarray]:
    """The log-probability of each token of each row but the first, given those before it."""
    ids, _ = pad(rows, pad_id if pad_id < job.words else 0)
    counts = np.array([len(row) for row in rows])
    cache = open_cache(job.session, job.cache, job.cross, len(ids), ids.shape[1])
    found = np.zeros((len(ids), ids.shape[1] - 1), np.float32)
    most = max(1, SCORES_AT_ONCE // (len(ids) * job.words))
    for start in range(0, ids.shape[1] - 1, most):
        logits = cache.read(ids[:, start : start + most], np.clip(counts - start, 0, most))  # (B, S, V)
        following = ids[:, start + 1 : start + 1 + most, None]
        logs = log_softmax(logits[:, : following.shape[1]])
        found[:, start : start + most] = np.take_along_axis(logs, following, axis=2)[:, :, 0]
    scores = [found[row, : count - 1] for row, count in enumerate(counts)]
    for row in scores:
        finite({"logits": row})
    return scores
