"""Speculative decoding: greedy search and sampling that verify several draft tokens a step.

R active rows, S tokens a step, V vocabulary.
"""

import time
from collections.abc import Callable, Generator, Iterator, Sequence

import numpy as np

from txexport.runtime.generation.drafts import Draft, Proposer, Rewindable
from txexport.runtime.generation.sampling import log_softmax, sample, softmax
from txexport.runtime.generation.search import Generated, Plan
from txexport.runtime.preprocessing.text import pad

ALLOWED = 1 / 32  # share of the time of plain steps that rejected drafts may cost
SAVED = 8  # saved time, in plain steps, that drafts may lose again before they pause
PLAIN = 64  # steps after which a plain one is timed again
DRAFTED = 0.25  # cost of an assistant's step in steps, where time is not measured
TIE = 2.0**-16  # relative lead of a logit that rounding errors may cause

Pairs = list[tuple[int, int]]


class Pace:
    """Decides when to propose drafts: while they save more time than they take, as measured so far."""

    def __init__(self) -> None:
        self.plain = self.balance = 0.0
        self.since = 0

    @property
    def proposes(self) -> bool:
        """Return whether to propose drafts at the next step."""
        return self.plain > 0 and self.balance >= 0 and self.since < PLAIN

    def took(self, cost: float, tokens: float, proposed: bool) -> None:
        """Record the cost of a step, and its tokens per row."""
        if proposed:
            self.since += 1
            self.balance = min(self.balance + self.plain * tokens - cost, SAVED * self.plain)
            return
        self.since = 0
        self.plain += (cost - self.plain) / (8 if 0 < self.plain < cost else 1)  # the first steps are slow
        if self.balance < 0:
            self.balance += ALLOWED * self.plain


class Speculation:
    """Extends `results` with drafts of `proposer` that `decoder`, which has read `prompts`, verifies.

    `choose` is that of `search.sample`, and the tokens are the same as there; `rngs` are the results'
    generators, or None for greedy search. Sampled drafts are accepted so that the distribution is the model's
    own (Leviathan et al. 2023). `limit` is the model's longest sequence. Unless `timed`, steps are counted
    instead of time, so that samples depend on the seed alone.
    """

    def __init__(
        self,
        decoder: Rewindable,
        prompts: Sequence[Sequence[int]],
        plan: Plan,
        choose: Callable[[np.ndarray, np.ndarray], np.ndarray],
        results: Sequence[Generated],
        proposer: Proposer,
        *,
        rngs: Sequence[np.random.Generator] | None = None,
        limit: int | None = None,
        log_probs: bool = False,
        timed: bool = True,
    ):
        self.decoder, self.prompts, self.plan, self.choose = decoder, prompts, plan, choose
        self.results, self.proposer, self.rngs, self.limit = results, proposer, rngs, limit
        self.log_probs, self.timed, self.pace = log_probs, timed, Pace()
        self.ragged = decoder.ragged and proposer.ragged  # otherwise there are drafts only for a single row
        self.going = np.arange(len(results))
        self.drafts = [Draft() for _ in results]
        self.before = decoder.lengths - 1  # tokens of each row's cache when the last step began
        self.exact = decoder.lengths.copy()  # of these, those read one by one, as in `search.sample`
        self.cost, self.proposed = 0.0, False

    def run(self, logits: np.ndarray) -> Iterator[Pairs]:
        """As `search.sample`, from the logits (R,V) of the rows' prompts."""
        counts, first = (yield from self._settled(logits[:, None])), True
        while True:
            if self.proposed:
                self.decoder.rewind(self.before + counts)
                self.proposer.judged(self.drafts, counts)
            if not first:
                self.pace.took(self.cost, float(counts.sum()) / len(counts), self.proposed)
            ended = [self.plan.ended(row, self.results[row].tokens) for row in self.going.tolist()]
            if all(ended):
                return
            if any(ended):
                on = np.flatnonzero(np.logical_not(ended))
                self.decoder.select(on)
                self.proposer.select(on)
                self.going, self.exact = self.going[on], self.exact[on]
            counts, first = (yield from self._settled(self._ahead())), False

    def _ahead(self) -> np.ndarray:
        """Read the newest token of each row and its draft; returns logits (R,S,V)."""
        start, self.before = time.perf_counter(), self.decoder.lengths
        rows = self.going.tolist()
        new = [self.results[row].tokens for row in rows]
        self.drafts, self.proposer.steps = [Draft() for _ in rows], 0
        if self.pace.proposes and (self.ragged or len(rows) == 1):
            room = np.inf if self.limit is None else self.limit - self.before.max() - 1
            most = [
                int(min(self.plan.limits[row] - len(tokens) - 1, room))
                for row, tokens in zip(rows, new, strict=True)
            ]
            self.drafts = self.proposer.propose(rows, new, most)
        newest, steps = [[tokens[-1]] for tokens in new], self.proposer.steps
        if any(draft.tokens for draft in self.drafts):
            pending = [[*last, *draft.tokens] for last, draft in zip(newest, self.drafts, strict=True)]
            logits = self.decoder.read(pad(pending, 0)[0], np.array([len(tokens) for tokens in pending]))
        else:
            self.exact += self.exact == self.before
            logits = self.decoder.step(np.array(newest), np.ones(len(rows), np.int64))[:, None]
        self.proposed = logits.shape[1] > 1 or steps > 0
        self.cost = time.perf_counter() - start if self.timed else 1 + DRAFTED * steps
        return logits

    def _settled(self, ahead: np.ndarray) -> Generator[Pairs, None, np.ndarray]:
        """Choose tokens by logits (R,S,V) while they match the drafts; returns their number a row (R)."""
        counts = np.zeros(len(self.going), np.int64)
        alive = np.arange(len(self.going))
        for j in range(ahead.shape[1]):
            rows = self.going[alive]
            scores = self._shaped(rows, ahead[alive, j])
            again = self._near_ties(ahead, scores, alive, j)
            scores = scores.copy() if again else scores
            for i in again:
                scores[i] = self._shaped(rows[[i]], self._reread(alive[i], j))[0]
            tokens = self._chosen(scores, alive, j)
            if self.log_probs:
                chosen = log_softmax(scores)[np.arange(len(rows)), tokens]
                for row, value in zip(rows.tolist(), chosen.tolist(), strict=True):
                    self.results[row].log_probs.append(value)
            pairs = list(zip(rows.tolist(), tokens.tolist(), strict=True))
            for row, token in pairs:
                self.results[row].tokens.append(token)
            yield pairs
            counts[alive] += 1
            if j + 1 == ahead.shape[1]:
                break
            right = [self._goes_on(*each, j) for each in zip(alive.tolist(), pairs, strict=True)]
            alive = alive[[i for i, goes_on in enumerate(right) if goes_on and i not in again]]
            if not len(alive):
                break
        return counts

    def _goes_on(self, place: int, pair: tuple[int, int], j: int) -> bool:
        """Return whether a row's token is the draft's, and the row is not finished."""
        row, token = pair
        draft = self.drafts[place].tokens
        return draft[j : j + 1] == [token] and not self.plan.ended(row, self.results[row].tokens)

    def _shaped(self, rows: np.ndarray, logits: np.ndarray) -> np.ndarray:
        if self.plan.shape is None:
            return logits
        indices = rows.tolist()
        return self.plan.shape(indices, [self.results[row].tokens for row in indices], logits)

    def _near_ties(self, ahead: np.ndarray, scores: np.ndarray, positions: np.ndarray, j: int) -> list[int]:
        """The rows (R) of scores (R,V) whose likeliest token might differ from that of single steps."""
        if self.rngs is not None:
            return []
        inexact = self.exact[positions] < self.before[positions] + j + 1
        if not inexact.any():
            return []
        lead = TIE * np.abs(ahead[positions, j]).max(axis=1, keepdims=True)
        near = scores >= scores.max(axis=1, keepdims=True) - lead
        if np.count_nonzero(near) == len(near):  # the likeliest themselves
            return []
        return np.flatnonzero(inexact & (near.sum(axis=1) > 1)).tolist()

    def _reread(self, place: int, j: int) -> np.ndarray:
        """Logits (1,V) of a row's next token, recomputed by single steps from its last exact position."""
        start, row = time.perf_counter(), self.going[place]
        text = [*self.prompts[row], *self.results[row].tokens]
        lengths = self.decoder.lengths.copy()
        lengths[place] = self.exact[place]
        self.decoder.rewind(lengths)
        ids, counts = np.zeros((len(lengths), 1), np.int64), np.zeros(len(lengths), np.int64)
        counts[place] = 1
        for token in text[self.exact[place] :]:
            ids[place] = token
            logits = self.decoder.step(ids, counts)
        self.exact[place] = len(text)
        if self.timed:
            self.cost += time.perf_counter() - start
        return logits[[place]]

    def _chosen(self, scores: np.ndarray, positions: np.ndarray, j: int) -> np.ndarray:
        """Tokens (R) by scores (R,V), for rows at `positions` of the batch."""
        rows, drafts = self.going[positions], [self.drafts[place] for place in positions.tolist()]
        if self.rngs is None or not any(draft.probs[j:] for draft in drafts):
            return self.choose(scores, rows)
        tokens = np.empty(len(rows), np.int64)
        for i, (row, draft) in enumerate(zip(rows.tolist(), drafts, strict=True)):
            if draft.probs[j:]:
                tokens[i] = accepted(scores[[i]], draft.tokens[j], draft.probs[j], self.rngs[row])
            else:
                tokens[i] = self.choose(scores[[i]], rows[[i]])[0]
        return tokens


def accepted(scores: np.ndarray, token: int, q: np.ndarray, rng: np.random.Generator) -> int:
    """Accept `token`, drawn from q (V), or draw another, so that tokens follow the scores (1,V).

    Leviathan et al. 2023, 2.3: it is accepted with probability min(1, p / q); otherwise a token is drawn from
    max(0, p - q), normalised.
    """
    with np.errstate(all="ignore"):  # `sample` raises InputError for scores of which none is possible
        p = softmax(scores)[0]
    if rng.random() * q[token] < p[token]:
        return token
    beyond = np.maximum(p - q, 0)
    if not beyond.any():  # rejected by a rounding error alone
        return int(sample(scores, [rng])[0])
    with np.errstate(divide="ignore"):
        return int(sample(np.log(beyond)[None], [rng])[0])
