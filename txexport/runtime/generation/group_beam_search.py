"""Diverse beam search (Vijayakumar et al. 2018): beam groups, penalised for each other's tokens.

Each group runs a beam search. At every step the groups choose one after another; tokens that earlier groups
chose get a penalty. As in transformers up to version 4.55. B sources, V vocabulary; the rows of a source are
its beams, group by group.
"""

from dataclasses import dataclass, field

import numpy as np

from txexport.runtime.generation.candidates import top
from txexport.runtime.generation.sampling import log_softmax
from txexport.runtime.generation.search import NEVER, BeamSettings, Decoder, Generated, Plan, quiet

Chosen = dict[int, list[int]]  # by source, the tokens that groups have chosen at this step


@dataclass
class _Group:
    """The hypotheses of one beam group of one source: running, their scores, and the best finished.

    `ended` has their scores over length ** length_penalty, and their tokens.
    """

    tokens: list[list[int]]
    scores: np.ndarray
    ended: list[tuple[float, list[int]]] = field(default_factory=list)
    done: bool = False

    def advance(self, scores: np.ndarray, source: int, plan: Plan, settings: BeamSettings) -> np.ndarray:
        """Extend every hypothesis by a token, by scores (size,V); returns the parents (size)."""
        size, vocab_size = scores.shape
        with quiet():
            flat = (scores + self.scores[:, None]).reshape(1, -1)
        best = top(flat, max(2, 1 + len(plan.ends)) * size)[0]
        rows = [[*self.tokens[place // vocab_size], int(place % vocab_size)] for place in best]
        hits = np.array([plan.closed(source, row) for row in rows])
        values = flat[0, best]
        for rank in np.flatnonzero(hits[:size]).tolist():
            self._end(rows[rank], float(values[rank]), settings)
        with quiet():
            running = values + hits * NEVER
        order = top(running[None], size)[0]
        self.tokens, self.scores = [rows[rank] for rank in order], running[order]
        self.done = self._nothing_better(float(values[0]), plan.limits[source], settings)
        return best[order] // vocab_size

    def _end(self, tokens: list[int], total: float, settings: BeamSettings) -> None:
        """Keep a hypothesis that ended if it is among the best."""
        score = total / len(tokens) ** settings.length_penalty
        if len(self.ended) == len(self.tokens):
            worst = min(self.ended, key=lambda hypothesis: hypothesis[0])
            if score <= worst[0]:
                return
            self.ended.remove(worst)
        self.ended.append((score, tokens))

    def _nothing_better(self, total: float, limit: int, settings: BeamSettings) -> bool:
        """Return whether the group is finished, by transformers' bound on later scores."""
        if len(self.ended) < len(self.tokens) or settings.early_stopping is True:
            return len(self.ended) == len(self.tokens)
        far = settings.early_stopping == "never" and settings.length_penalty > 0
        reached = limit if far else len(self.tokens[0])
        worst = min(score for score, _ in self.ended)
        return worst >= total / reached**settings.length_penalty

    def finish(self, settings: BeamSettings) -> list[tuple[float, list[int]]]:
        """The best hypotheses: the finished ones and, unless the group is finished, the running ones."""
        if not self.done:
            for tokens, score in zip(self.tokens, self.scores.tolist(), strict=True):
                self._end(tokens, score, settings)
        return self.ended


def group_beam(
    decoder: Decoder,
    logits: np.ndarray,
    plan: Plan,
    settings: BeamSettings,
    groups: int,
    chosen: Chosen,
    pad: int,
) -> list[list[Generated]]:
    """The best hypotheses of every source over its groups, the best first; logits (B,V) are of the prompts.

    `chosen` is updated for `plan.shape`, which subtracts the penalty from the scores; the scores of
    hypotheses include the penalty. A finished group counts as choosing `pad`.
    """
    size = settings.beams // groups
    first = np.array([0] + [NEVER] * (size - 1), np.float32)  # all beams start equal, so that one is enough
    states = [[_Group([[]] * size, first) for _ in range(groups)] for _ in logits]
    going = list(range(len(logits)))
    decoder.select(np.repeat(np.arange(len(going)), settings.beams), settings.beams)
    logits = np.repeat(logits, settings.beams, axis=0)
    while True:
        logs = log_softmax(logits).reshape(len(going), groups, size, -1)
        parents = np.tile(np.arange(settings.beams), (len(going), 1)).reshape(len(going), groups, size)
        chosen.clear()
        for place in range(groups):
            active = [i for i, source in enumerate(going) if not states[source][place].done]
            scores = _shaped(logs[active, place], [going[i] for i in active], states, place, plan)
            for i, rows in zip(active, scores, strict=True):
                group = states[going[i]][place]
                parents[i, place] = place * size + group.advance(rows, going[i], plan, settings)
            for i, source in enumerate(going):
                group = states[source][place]
                newest = [row[-1] for row in group.tokens] if i in active else [pad] * size
                chosen.setdefault(source, []).extend(newest)
        on = [i for i, source in enumerate(going) if _goes_on(states[source], plan.limits[source])]
        if not on:
            return [_best(state, settings) for state in states]
        rows = (parents.reshape(len(going), -1) + np.arange(len(going))[:, None] * settings.beams)[on].ravel()
        if len(on) == len(going):
            decoder.reorder(rows)
        else:
            decoder.select(rows, settings.beams)
        going = [going[i] for i in on]
        tokens = np.array([chosen[source] for source in going], np.int64).reshape(-1, 1)
        logits = decoder.step(tokens, np.ones(len(tokens), np.int64))


def _shaped(
    logs: np.ndarray, sources: list[int], states: list[list[_Group]], place: int, plan: Plan
) -> np.ndarray:
    """The scores of the groups at `place` of those sources, by logs (A,size,V)."""
    if plan.shape is None or not sources:
        return logs
    size = logs.shape[1]
    rows = [tokens for source in sources for tokens in states[source][place].tokens]
    origins = [source for source in sources for _ in range(size)]
    return plan.shape(origins, rows, logs.reshape(len(rows), -1)).reshape(logs.shape)


def _goes_on(state: list[_Group], limit: int) -> bool:
    return any(not group.done and len(group.tokens[0]) < limit for group in state)


def _best(state: list[_Group], settings: BeamSettings) -> list[Generated]:
    hypotheses = [hypothesis for group in state for hypothesis in group.finish(settings)]
    hypotheses.sort(key=lambda hypothesis: hypothesis[0])
    return [Generated(tokens, score=score) for score, tokens in hypotheses[: -settings.returned - 1 : -1]]
