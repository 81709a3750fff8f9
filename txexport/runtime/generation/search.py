"""Greedy search, sampling and beam search; finished rows are removed from the batch.

B sources, R active rows, V vocabulary. With beams, a source has `beams` rows, one after another.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from txexport.runtime.generation.candidates import likeliest, top
from txexport.runtime.generation.sampling import log_softmax

NEVER = np.float32(-1e9)  # a score that no hypothesis has
EMPTY = np.nextafter(NEVER, np.float32(-np.inf))  # of an empty slot: below any other score


class Decoder(Protocol):
    """The part of a cache that searches use."""

    def step(self, input_ids: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """input_ids (R,1), counts (R) -> logits (R,V)."""
        ...

    def select(self, rows: np.ndarray, copies: int = 1) -> None:
        """Keep only `rows`, in that order; a row may be repeated. Each `copies` rows have one source."""
        ...

    def reorder(self, rows: np.ndarray) -> None:
        """Reorder the beams of each source: row i continues row rows[i]."""
        ...


@dataclass
class Generated:
    """The new tokens of a row, an end-of-sequence token included.

    `log_probs` are the tokens' under the distribution that they were chosen from. `score` is a beam's: the
    sum of the model's log-probabilities over length ** length_penalty.
    """

    tokens: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    score: float | None = None


@dataclass(frozen=True)
class Plan:
    """The limits and score processing of a generation.

    `limits` are the most new tokens of each source. `shape(sources, new, scores)` changes scores (R,V) for
    rows of those sources with those new tokens; None changes nothing. `stopped(source, tokens)` returns
    whether a stop string ends these new tokens.
    """

    limits: Sequence[int]
    ends: frozenset[int]
    shape: Callable[[Sequence[int], Sequence[Sequence[int]], np.ndarray], np.ndarray] | None = None
    stopped: Callable[[int, Sequence[int]], bool] | None = None

    def ended(self, source: int, tokens: Sequence[int]) -> bool:
        """Return whether a row with these new tokens is finished."""
        return len(tokens) >= self.limits[source] or self.closed(source, tokens)

    def closed(self, source: int, tokens: Sequence[int]) -> bool:
        """Return whether a row ends with an end-of-sequence token or a stop string."""
        return tokens[-1] in self.ends or (self.stopped is not None and self.stopped(source, tokens))


def sample(
    decoder: Decoder,
    logits: np.ndarray,
    plan: Plan,
    choose: Callable[[np.ndarray, np.ndarray], np.ndarray],
    results: Sequence[Generated],
    *,
    log_probs: bool = False,
) -> Iterator[list[tuple[int, int]]]:
    """Extend `results`, one a row, by a token a step; each step yields (row, new token) pairs.

    logits (R,V) follow the rows' prompts. `choose` takes scores (R,V) and the indices (R) of their results,
    and returns tokens (R): for greedy search the likeliest.
    """
    going = np.arange(len(results))
    while len(going):
        scores = logits
        if plan.shape is not None:
            scores = plan.shape(going.tolist(), [results[row].tokens for row in going.tolist()], logits)
        tokens = choose(scores, going)
        if log_probs:
            chosen = log_softmax(scores)[np.arange(len(going)), tokens]
            for row, value in zip(going.tolist(), chosen.tolist(), strict=True):
                results[row].log_probs.append(value)
        pairs = list(zip(going.tolist(), tokens.tolist(), strict=True))
        for row, token in pairs:
            results[row].tokens.append(token)
        yield pairs
        on = np.array([not plan.ended(row, results[row].tokens) for row in going.tolist()])
        if not on.any():
            return
        if not on.all():
            decoder.select(np.flatnonzero(on))
            going, tokens = going[on], tokens[on]
        logits = decoder.step(tokens[:, None], np.ones(len(going), np.int64))


@dataclass(frozen=True)
class BeamSettings:
    """Beam search settings; names and meaning as in transformers."""

    beams: int
    length_penalty: float
    early_stopping: bool | str
    returned: int


def quiet() -> np.errstate:
    """Suppress warnings of scores that overflow to infinity, as PyTorch does; they are never chosen."""
    return np.errstate(over="ignore", divide="ignore", invalid="ignore")


def scale(length: int, settings: BeamSettings) -> np.float32:
    """The length penalty: the divisor of the scores of hypotheses with `length` tokens."""
    with quiet():
        return np.float32(float(length) ** settings.length_penalty)


class _Beams:
    """Hypotheses of A active sources: the running ones and the best finished ones."""

    def __init__(self, sources: int, settings: BeamSettings, longest: int):
        shape = (sources, settings.beams)
        self.sources = np.arange(sources)
        self.tokens = np.zeros((*shape, longest), np.int64)
        self.scores = np.zeros(shape, np.float32)
        self.scores[:, 1:] = NEVER  # all beams start equal, so that one is enough
        self.done_tokens = np.zeros_like(self.tokens)
        self.done_scores = np.full(shape, EMPTY)
        self.done_lengths = np.zeros(shape, np.int64)
        self.done = np.zeros(shape, bool)

    def keep(self, on: np.ndarray) -> None:
        """Keep the sources where `on` (A) is true."""
        for name, array in vars(self).items():
            setattr(self, name, array[on])

    def best(self, row: int, settings: BeamSettings) -> list[Generated]:
        """The best finished hypotheses of the active source `row`."""
        return [
            Generated(
                self.done_tokens[row, beam, : self.done_lengths[row, beam]].tolist(),
                score=float(self.done_scores[row, beam]),
            )
            for beam in range(settings.returned)
        ]


def beam(
    decoder: Decoder,
    logits: np.ndarray,
    plan: Plan,
    settings: BeamSettings,
    rngs: Sequence[np.random.Generator] | None = None,
) -> list[list[Generated]]:
    """The best hypotheses of every source, the best first; logits (B,V) are of the prompts.

    The search of transformers: at each step the likeliest continuations over all beams are candidates; those
    that end are kept if they are among the best, and the others continue. With `rngs`, one a source,
    continuations are sampled instead. A source is finished when no running hypothesis can become better than
    the finished ones.
    """
    sources, beams = len(logits), settings.beams
    results: list[list[Generated]] = [[] for _ in range(sources)]
    decoder.select(np.repeat(np.arange(sources), beams), beams)
    logits = np.repeat(logits, beams, axis=0)  # (A*beams, V)
    state, length = _Beams(sources, settings, max(plan.limits)), 0
    while True:
        indices, values = _candidates(state, logits, length, plan, settings, rngs)
        beam_of, tokens = np.divmod(indices, logits.shape[1])
        parents, hits = _advance(state, beam_of, tokens, values, length, plan, settings)
        length += 1
        on = _going_on(state, length, plan, settings) & ~hits.all(axis=1)
        for row in np.flatnonzero(~on).tolist():
            results[state.sources[row]] = state.best(row, settings)
        if not on.any():
            return results
        offsets = np.arange(len(on))[:, None] * beams
        if on.all():
            decoder.reorder((parents + offsets).ravel())
        else:
            decoder.select((parents + offsets)[on].ravel(), beams)
            state.keep(on)
        newest = state.tokens[:, :, length - 1].reshape(-1, 1)
        logits = decoder.step(newest, np.ones(len(newest), np.int64))


def _candidates(
    state: _Beams,
    logits: np.ndarray,
    length: int,
    plan: Plan,
    settings: BeamSettings,
    rngs: Sequence[np.random.Generator] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The likeliest continuations by logits (A*beams,V): indices (A,2*beams or more) and scores."""
    sources, beams = state.scores.shape
    count = max(2, 1 + len(plan.ends)) * beams
    if plan.shape is None and rngs is None:
        return likeliest(logits.reshape(sources, beams, -1), state.scores, count)
    scores = log_softmax(logits)
    if plan.shape is not None:
        rows = [tokens[:length].tolist() for source in state.tokens for tokens in source]
        scores = plan.shape(np.repeat(state.sources, beams).tolist(), rows, scores)
    with quiet():
        flat = (scores.reshape(sources, beams, -1) + state.scores[:, :, None]).reshape(sources, -1)
    drawn = flat
    if rngs is not None:  # without replacement
        drawn = flat + np.stack(
            [rngs[source].gumbel(size=flat.shape[1]) for source in state.sources.tolist()]
        )
    indices = top(drawn, count)
    return indices, np.take_along_axis(flat, indices, axis=1)


def _advance(
    state: _Beams,
    parents: np.ndarray,
    newest: np.ndarray,
    values: np.ndarray,
    length: int,
    plan: Plan,
    settings: BeamSettings,
) -> tuple[np.ndarray, np.ndarray]:
    """Extend every hypothesis by a token: candidates (A,count) by parent, newest token and score.

    Returns the parent beams (A,beams) of the new hypotheses, and which candidates (A,count) ended.
    """
    tokens = np.take_along_axis(state.tokens, parents[:, :, None], axis=1)  # (A, count, longest)
    tokens[:, :, length] = newest
    limits = np.array([plan.limits[source] for source in state.sources.tolist()])
    hits = np.isin(newest, list(plan.ends)) | (limits <= length + 1)[:, None]
    if plan.stopped is not None:
        for source, rows, row_hits in zip(state.sources.tolist(), tokens, hits, strict=True):
            row_hits |= [plan.stopped(source, row[: length + 1].tolist()) for row in rows]
    _keep_ended(state, tokens, values, hits, length + 1, settings)
    with quiet():
        running = values + hits * NEVER
    order = top(running, settings.beams)
    state.tokens = np.take_along_axis(tokens, order[:, :, None], axis=1)
    state.scores = np.take_along_axis(running, order, axis=1)
    return np.take_along_axis(parents, order, axis=1), hits


def _keep_ended(
    state: _Beams,
    tokens: np.ndarray,
    values: np.ndarray,
    hits: np.ndarray,
    length: int,
    settings: BeamSettings,
) -> None:
    """Let candidates that end, if among the first `beams`, replace worse finished hypotheses."""
    beams = settings.beams
    ending = hits & (np.arange(hits.shape[1]) < beams)
    full = state.done.all(axis=1, keepdims=True) & (settings.early_stopping is True)
    with quiet():  # a banned token's score may be the lowest number
        values = values / scale(length, settings) + (full + ~ending.astype(bool)) * NEVER
    merged = np.concatenate([state.done_scores, values], axis=1)
    order = top(merged, beams)
    lengths = np.concatenate([state.done_lengths, np.full(values.shape, length)], axis=1)
    state.done_scores = np.take_along_axis(merged, order, axis=1)
    state.done_lengths = np.take_along_axis(lengths, order, axis=1)
    state.done = np.take_along_axis(np.concatenate([state.done, ending], axis=1), order, axis=1)
    both = np.concatenate([state.done_tokens, tokens], axis=1)
    state.done_tokens = np.take_along_axis(both, order[:, :, None], axis=1)


def _going_on(state: _Beams, length: int, plan: Plan, settings: BeamSettings) -> np.ndarray:
    """The sources (A) bool that may still improve, by transformers' estimate of later scores."""
    reached = np.full(len(state.sources), scale(length, settings))
    if settings.early_stopping == "never" and settings.length_penalty > 0:
        reached = np.array([scale(plan.limits[source], settings) for source in state.sources.tolist()])
    with quiet():
        possible = state.scores[:, 0] / reached
    worst = np.where(state.done.all(axis=1), state.done_scores.min(axis=1), NEVER)
    going = possible > worst
    if settings.early_stopping is True:
        going &= ~state.done.all(axis=1)
    return going
