"""Continuous batching: rows with options of their own join and leave between steps.

B rows, S tokens of a chunk, V vocabulary. A row's tokens, sampled ones included, do not
depend on the other rows of the batch.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.errors import InputError
from txexport.runtime.generation.caches import open_cache, running_cache
from txexport.runtime.generation.kv_cache import DynamicCache, StaticCache
from txexport.runtime.generation.length_limits import new_tokens
from txexport.runtime.generation.logits_processors import processors
from txexport.runtime.generation.planning import plan_of
from txexport.runtime.generation.prefill import check_finite, chunk_of, padding
from txexport.runtime.generation.requests import GenerationRequest, checked, encoded
from txexport.runtime.generation.running_cache import DynamicRows, StaticRows
from txexport.runtime.generation.sampling import log_softmax
from txexport.runtime.generation.sampling import sample as draw
from txexport.runtime.generation.scheduler import CACHE_TOKENS, costs, generator
from txexport.runtime.generation.search import Generated, Plan
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.runtime.preprocessing.text import pad

PROMPT_TOKENS = 512  # of one prefill step, which comes between two decoding steps


@dataclass(eq=False)
class RunningRow:
    """A row in continuous batching: a `request` of one prompt, and the most tokens its caches hold, `cost`.

    With `alternatives`, `likeliest` has that many of the likeliest tokens at each position, with their
    log-probabilities. A `cancelled` row is removed before the next step. `done` is set at the end; `closed`
    if the row ended by itself rather than by its limit, `error` if it failed.
    """

    request: GenerationRequest
    cost: int
    rng: np.random.Generator | None = None
    alternatives: int = 0
    result: Generated = field(default_factory=Generated)
    likeliest: list[list[tuple[int, float]]] = field(default_factory=list)
    cancelled: bool = False
    done: bool = False
    closed: bool = False
    error: Exception | None = None
    plan: Plan | None = None

    def fail(self, error: Exception) -> None:
        """Finish the row with an error."""
        self.done, self.error = True, error


def rows_of(request: GenerationRequest, alternatives: int = 0) -> list[RunningRow]:
    """The rows of a request, `num_return_sequences` for each of its inputs, in the order of its results.

    Raises InputError as `scheduler.run`, and for beam search, which continuous batching does not support.
    """
    config, copies = request.config, request.config.num_return_sequences
    if config.num_beams > 1:
        raise InputError(f"num_beams is {config.num_beams}, expected 1 with continuous batching")
    request = checked(request)
    processors(
        config, request.vocab_size, request.inputs
    )  # checks the options before other rows are affected
    entropy = np.random.SeedSequence(config.seed).entropy
    rows = []
    for place, cost in enumerate(costs(request)):
        single = replace(request.of_rows([place]), config=replace(config, num_return_sequences=1))
        for copy in range(copies):
            drawn = (request.first_place + place) * copies + copy
            rng = generator(entropy, drawn) if config.do_sample else None
            rows.append(RunningRow(single, cost // copies, rng, alternatives))
    return rows


class RunningBatch:
    """The running rows of one bundle, and a queue of waiting ones.

    The caches of the running rows hold at most `cache_tokens`, padding included, and states as the tokens of
    their size; a row that needs more runs alone. Rows start in the order in which they were added.
    """

    def __init__(self, bundle: LoadedBundle, cache_tokens: int = CACHE_TOKENS):
        self.bundle, self.cache_tokens = bundle, cache_tokens
        self.waiting: deque[RunningRow] = deque()
        self.reading: _Reading | None = None
        self.groups: list[_Group] = []  # more than one only where rows of several lengths cannot run together

    @property
    def running(self) -> list[RunningRow]:
        """The rows in prefill or decoding."""
        rows = [] if self.reading is None else list(self.reading.rows)
        return rows + [row for group in self.groups for row in group.rows]

    @property
    def busy(self) -> bool:
        """Return whether any row waits or runs."""
        return bool(self.waiting or self.reading or self.groups)

    def add(self, rows: Sequence[RunningRow]) -> None:
        """Queue rows until there is room for them."""
        self.waiting.extend(rows)

    def step(self) -> list[RunningRow]:
        """Prefill a chunk of prompts and extend each running row by a token; returns the changed rows."""
        changed = [row for group in self.groups for row in self._advance(group)]
        self.groups = [group for group in self.groups if group.rows]
        return changed + self._read()

    def fail(self, error: Exception) -> list[RunningRow]:
        """Fail all rows with an error that is not due to one row; returns them."""
        rows = [*self.waiting, *self.running]
        self.waiting.clear()
        self.reading, self.groups = None, []
        for row in rows:
            row.fail(error)
        return rows

    def _advance(self, group: "_Group") -> list[RunningRow]:
        try:
            return group.step()
        except Exception as error:  # of the runtime or of memory: it concerns all rows
            rows, group.rows = group.rows, []
            for row in rows:
                row.fail(error)
            return rows

    def _read(self) -> list[RunningRow]:
        """Prefill the next chunk of prompts; rows whose prefill is complete join a group."""
        gone = {row for row in self.waiting if row.cancelled}  # read once: others may be cancelled meanwhile
        if gone:
            self.waiting = deque(row for row in self.waiting if row not in gone)
        for row in gone:
            row.done = True
        changed = list(gone)
        rows = self._admitted() if self.reading is None else self.reading.rows
        if not rows:
            return changed
        try:
            if self.reading is None:
                self.reading = _Reading(rows)
            if not self.reading.advance():
                return changed
            reading, self.reading = self.reading, None
            group = next((one for one in self.groups if one.cache.takes(reading.cache)), None)
            if group is None:
                group = _Group(running_cache(self.bundle.decoder, _kind(self.bundle)))
                self.groups.append(group)
            return changed + group.join(reading)
        except Exception as error:
            self.reading = None
            for row in rows:
                row.fail(error)
            return changed + list(rows)

    def _admitted(self) -> list[RunningRow]:
        """Remove from the queue and return the first rows that fit and can be prefilled together."""
        running = self.running
        largest = max((row.cost for row in running), default=0)
        rows: list[RunningRow] = []
        while self.waiting:
            row = self.waiting[0]
            largest = max(largest, row.cost)
            count = len(running) + len(rows) + 1
            if count > 1 and count * largest > self.cache_tokens:
                break
            if rows and not _alike(rows, row):
                break
            rows.append(self.waiting.popleft())
        return rows


def _kind(bundle: LoadedBundle) -> str:
    assert bundle.manifest.cache is not None
    return bundle.manifest.cache


def _alike(rows: Sequence[RunningRow], row: RunningRow) -> bool:
    """Return whether a row can be prefilled with others: a copy, or a short prompt with the same start."""
    first, request = rows[0].request, row.request
    if request is rows[-1].request:
        return True
    if request.begin is not None or request.bundle.reads_any_length:
        return False
    if first.config.decoder_start != request.config.decoder_start:
        return False
    requests = {one.request for one in (*rows, row)}
    return len(requests) * max(len(one.inputs[0]) for one in requests) <= PROMPT_TOKENS


class _Reading:
    """Prefill of P prompts in a cache of its own; copies of a row share a prompt."""

    def __init__(self, rows: Sequence[RunningRow]):
        self.rows = list(rows)
        first = rows[0].request
        requests = list(dict.fromkeys(row.request for row in rows))
        place_of = {request: place for place, request in enumerate(requests)}
        self.owners = np.array([place_of[row.request] for row in rows])  # (B): each row's prompt
        media = [request.media_of(0) for request in requests]
        batch = encoded(replace(first, inputs=[request.inputs[0] for request in requests], media=media))
        prompts = batch.decoder_input_ids
        for row, owner in zip(rows, self.owners.tolist(), strict=True):
            prepared = replace(row.request, decoder_input_ids=[prompts[owner]])
            limit = new_tokens(len(prompts[owner]), prepared.config, prepared.limit, prepared.strict)
            row.request, row.plan = prepared, plan_of(prepared, [limit], [0])
        self.ids, _ = pad(prompts, padding(first))  # (P, S)
        self.counts = np.array([len(prompt) for prompt in prompts])
        self.logits = np.zeros((len(prompts), first.vocab_size), np.float32)
        self.cache: StaticCache | DynamicCache = open_cache(
            first.bundle.decoder, _kind(first.bundle), batch.cross, *self.ids.shape
        )
        self.cache.media = media
        self.batch, self.start = batch, 0

    def advance(self) -> bool:
        """Read the next chunk; returns whether it was the last."""
        chunk = chunk_of(self.batch, max(1, PROMPT_TOKENS // len(self.counts)), self.ids.shape[1])
        here = np.clip(self.counts - self.start, 0, chunk)
        last = self.cache.step(self.ids[:, self.start : self.start + chunk], here)
        self.logits = np.where((here > 0)[:, None], last, self.logits)
        self.start += chunk
        return self.start >= self.ids.shape[1] or all(row.cancelled for row in self.rows)


class _Group:
    """Rows that are extended in one batch."""

    def __init__(self, cache: StaticRows | DynamicRows):
        self.cache = cache
        self.rows: list[RunningRow] = []

    def join(self, reading: _Reading) -> list[RunningRow]:
        """Add prefilled rows with their first tokens, unless finished; returns all prefilled rows."""
        on = _extend(reading.rows, reading.logits[reading.owners])
        if on.any():
            owners = reading.owners[on]
            if not np.array_equal(owners, np.arange(len(reading.counts))):
                reading.cache.select(owners)
            self.cache.join(reading.cache)
            self.rows += [row for row, stays in zip(reading.rows, on.tolist(), strict=True) if stays]
        return reading.rows

    def step(self) -> list[RunningRow]:
        """Extend each row by a token; returns the rows that got one or were cancelled."""
        before = self.rows
        if not self._leave(np.array([not row.cancelled for row in before])):
            return before
        logits = self.cache.step(np.array([row.result.tokens[-1] for row in self.rows]))
        self._leave(_extend(self.rows, logits))
        return before

    def _leave(self, on: np.ndarray) -> bool:
        """Remove the rows where `on` (B) is false; returns whether any are left."""
        if not on.all():
            for row, stays in zip(self.rows, on.tolist(), strict=True):
                row.done = row.done or not stays
            self.rows = [self.rows[place] for place in self.cache.keep(on).tolist()]
        return bool(self.rows)


def _extend(rows: Sequence[RunningRow], logits: np.ndarray) -> np.ndarray:
    """Append a token to each row by logits (B,V); returns which rows (B) are not finished."""
    likeliest = logits.argmax(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        finite = np.isfinite(logits.sum(axis=1))  # a sum that overflows is checked again
    on = np.zeros(len(rows), bool)
    for place, row in enumerate(rows):
        if row.cancelled:
            row.done = True
            continue
        try:
            if not finite[place] and not row.request.config.remove_invalid_values:
                check_finite(logits[place])
            _choose(row, logits[place : place + 1], int(likeliest[place]))
        except Exception as error:
            row.fail(error)
        on[place] = not row.done
    return on


def _choose(row: RunningRow, logits: np.ndarray, likeliest: int) -> None:
    """Append the next token to a row by its logits (1,V); `likeliest` is their argmax."""
    plan, tokens, scores = row.plan, row.result.tokens, logits
    assert plan is not None
    if plan.shape is not None:
        scores = plan.shape([0], [tokens], logits)
        likeliest = int(scores[0].argmax())
    token = likeliest if row.rng is None else int(draw(scores, [row.rng])[0])
    if row.request.log_probs:
        log_probs = log_softmax(scores)[0]
        row.result.log_probs.append(float(log_probs[token]))
        if row.alternatives:
            order = np.argsort(-log_probs, kind="stable")[: row.alternatives]
            row.likeliest.append([(int(i), float(log_probs[i])) for i in order])
    tokens.append(token)
    row.closed = plan.closed(0, tokens)
    row.done = row.closed or len(tokens) >= plan.limits[0]
