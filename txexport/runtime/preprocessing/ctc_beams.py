"""Beam search over the outputs of a CTC head (Graves et al. 2006; Hannun et al. 2014); S vectors, V tokens.

Texts, times and scores are those of pyctcdecode, with which transformers decodes by a language model: beams
of one text are one, and a word is scored when it is complete.
"""

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

# Limits of pyctcdecode.
LEAST_TOKEN = -5.0  # the log-probability below which a token is left out, unless it is the likeliest
LEAST_BEAM = -10.0  # of a beam, relative to the best
LEAST_PROBABILITY = 1e-15
SPACE = " "
BLOCK = 500  # vectors after which words that no beam has are forgotten
MOST_OPEN = 3000  # vectors, 60 s of wav2vec2, on whose text the beams may differ
MOST_PARTS = 100_000  # beginnings of words whose scores are kept
NOTHING = -1  # the last token at the beginning


class WordScores(Protocol):
    """A language model of words; scores are log-probabilities with its weights."""

    @property
    def start(self) -> Any:
        """The state before the first word."""
        ...

    def word(self, state: Any, word: str) -> tuple[float, Any]:
        """The score of a word after a state, and the state after it."""
        ...

    def last_word(self, state: Any, word: str) -> float:
        """The score of a word after a state, at the end of the text."""
        ...

    def beginning(self, part: str) -> float:
        """The score of the beginning of a word."""
        ...


class Run:
    """A token of an alignment, in vectors from `start` to before `end`, after the tokens `before`."""

    __slots__ = ("before", "end", "start", "token")

    def __init__(self, before: "Run | None", token: int, start: int, end: int):
        self.before, self.token, self.start, self.end = before, token, start, end


class Words:
    """A text of whole words: one object for each text, so that equal texts are identical."""

    __slots__ = ("after", "before", "score", "state", "text")

    def __init__(self, before: "Words | None", text: str, score: float, state: Any):
        self.before, self.text, self.score, self.state = before, text, score, state
        self.after: dict[str, Words] = {}

    def then(self, word: str, scores: WordScores | None) -> "Words":
        """The text with one more word."""
        following = self.after.get(word)
        if following is None:
            score, state = (0.0, None) if scores is None else scores.word(self.state, word)
            following = self.after[word] = Words(self, word, self.score + score, state)
        return following


class Beam(NamedTuple):
    """Alignments of one text: its words, the beginning of the next, the last token, and one alignment.

    `score` adds the language model's to `log_prob`.
    """

    score: float
    log_prob: float
    history: Words
    part: str
    last: int
    run: Run | None


class BeamSearch:
    """The search for the likeliest texts of a sound whose outputs come in pieces.

    `labels` are the texts of the tokens: "" is a blank, and a space ends a word. Equal labels are one token.
    """

    def __init__(self, labels: Sequence[str], width: int, scores: WordScores | None = None):
        self.labels, self.width, self.scores = labels, width, scores
        first = {label: number for number, label in reversed([*enumerate(labels)])}
        self.same = [first[label] for label in labels]
        self.blank = first[""]
        begin = Words(None, "", 0.0, None if scores is None else scores.start)
        self.beams = [Beam(0.0, 0.0, begin, "", NOTHING, None)]
        self.parts: dict[str, float] = {}  # the scores of beginnings of words
        self.count = self.settled = 0  # vectors that were read, and of them those whose text is settled
        self.text: list[str] = []  # the words that all beams have

    def add(self, log_probs: np.ndarray) -> None:
        """Read the log-probabilities (S,V) of a piece."""
        log_probs = np.maximum(log_probs, math.log(LEAST_PROBABILITY))
        likeliest = log_probs.argmax(axis=-1)
        for row, best in zip(log_probs, likeliest.tolist(), strict=True):
            # In the order of a set, as in pyctcdecode: of equal texts the last alignment is kept.
            tokens = {*np.flatnonzero(row >= LEAST_TOKEN).tolist()} | {best}
            self._step([(token, float(row[token])) for token in tokens])
            if self.count % BLOCK == 0:
                self._forget()
        self._forget()

    def settle(self) -> list[int]:
        """The tokens, blanks included, of the next vectors, up to where beams have different alignments."""
        if self.count - self.settled > MOST_OPEN:
            self._agree(self.count - MOST_OPEN // 2)
        runs = {beam.run for beam in self.beams}
        common = _common([*runs])
        if len(runs) == 1 and all(beam.last == self.blank for beam in self.beams):
            tokens = self._tokens(common, self.count)
        elif common is not None and common.start > self.settled:  # the run itself may go on
            tokens = self._tokens(common, common.start)
        else:
            return []
        if common is not None:
            common.before = None
        return tokens

    def finish(self) -> tuple[list[int], list[tuple[list[str], float, float]]]:
        """The tokens of the other vectors by the best text; and the texts in order.

        A text is its words, its score and its log-probability.
        """
        merged: dict[Words, Beam] = {}
        for beam in self.beams:
            history = beam.history.then(beam.part, self.scores) if beam.part else beam.history
            log_prob = beam.log_prob
            if (same := merged.get(history)) is not None:
                log_prob = log_sum(same.log_prob, log_prob)
            score = log_prob + beam.history.score
            if self.scores is not None:
                score += self.scores.last_word(beam.history.state, beam.part)
            merged[history] = beam._replace(score=score, log_prob=log_prob, history=history)
        self.beams = self._best([*merged.values()])
        tokens = self._tokens(self.beams[0].run, self.count)
        return tokens, [(self._text(beam.history), beam.score, beam.log_prob) for beam in self.beams]

    def _step(self, tokens: Sequence[tuple[int, float]]) -> None:
        """Read a vector of which these tokens, with their log-probabilities, are likely enough."""
        number, self.count = self.count, self.count + 1
        if len(tokens) == 1 and all(beam.last == tokens[0][0] == self.blank for beam in self.beams):
            more = tokens[0][1]
            self.beams = [Beam(one[0] + more, one[1] + more, *one[2:]) for one in self.beams]
            return
        merged: dict[tuple[Words, str, int], tuple[Run | None, float]] = {}
        for token, token_log_prob in tokens:
            label, token = self.labels[token], self.same[token]
            for _, log_prob, history, part, last, run in self.beams:
                log_prob += token_log_prob
                is_new = label != "" and token != last
                text = (history, part) if not is_new else self._with(history, part, label)
                key = (*text, token)
                if is_new and (part or label != SPACE):  # a second space is none
                    run = Run(run, token, number, self.count)
                elif run is not None and run.token == token and token == last:
                    run = Run(run.before, token, run.start, self.count)
                if (same := merged.get(key)) is not None:
                    log_prob = log_sum(same[1], log_prob)
                merged[key] = run, log_prob
        self.beams = self._best(
            [
                Beam(log_prob + history.score + self._beginning(part), log_prob, history, part, last, run)
                for (history, part, last), (run, log_prob) in merged.items()
            ]
        )

    def _with(self, history: Words, part: str, label: str) -> tuple[Words, str]:
        """A text with one more token: its words, and the beginning of the next."""
        if SPACE not in label:
            return history, part + label
        *complete, part = (part + label).split(SPACE)
        for word in filter(None, complete):
            history = history.then(word, self.scores)
        return history, part

    def _beginning(self, part: str) -> float:
        """The score of the beginning of a word."""
        if self.scores is None or not part:
            return 0.0
        score = self.parts.get(part)
        if score is None:
            score = self.parts[part] = self.scores.beginning(part)
        return score

    def _best(self, beams: list[Beam]) -> list[Beam]:
        """The best beams in order."""
        least = max(beam.score for beam in beams) + LEAST_BEAM
        return sorted((beam for beam in beams if beam.score >= least), key=_score, reverse=True)[: self.width]

    def _tokens(self, run: Run | None, end: int) -> list[int]:
        """The tokens of the vectors from `settled` to `end`, which are settled then, by an alignment."""
        tokens = [self.blank] * (end - self.settled)
        while run is not None and run.end > self.settled:
            for vector in range(max(run.start, self.settled), min(run.end, end)):
                tokens[vector - self.settled] = run.token
            run = run.before
        self.settled = end
        return tokens

    def _agree(self, vector: int) -> None:
        """Drop the beams whose alignment up to a vector is not that of the best."""
        run = self.beams[0].run
        while run is not None and run.end > vector:
            run = run.before
        if run is not None:
            self.beams = [beam for beam in self.beams if run in _chain(beam.run)]

    def _text(self, history: Words) -> list[str]:
        return [*self.text, *(one.text for one in reversed(_chain(history)) if one.text)]

    def _forget(self) -> None:
        """Forget words that no beam has; those that all have are not needed again."""
        common = _common([beam.history for beam in self.beams])
        if common is not None and common.before is not None:
            self.text = self._text(common)
            common.before, common.text = None, ""
        alive = {history for beam in self.beams for history in _chain(beam.history)}
        for history in alive:
            history.after = {text: one for text, one in history.after.items() if one in alive}
        if len(self.parts) > MOST_PARTS:
            self.parts.clear()


_score = operator.itemgetter(0)


def log_sum(a: float, b: float) -> float:
    """The logarithm of the sum of two numbers by their logarithms."""
    high, low = (a, b) if a >= b else (b, a)
    return high + math.log1p(math.exp(low - high))


def _chain(last: Any) -> list[Any]:
    """A Run or Words and all before it, from the last."""
    chain = []
    while last is not None:
        chain.append(last)
        last = last.before
    return chain


def _common(every: Sequence[Any]) -> Any:
    """The last Run or Words of which all have grown; None where there is none."""
    first, *others = every
    chain = _chain(first)
    positions = {one: position for position, one in enumerate(chain)}
    deepest = 0
    for one in others:
        while one is not None and one not in positions:
            one = one.before
        if one is None:
            return None
        deepest = max(deepest, positions[one])
    return chain[deepest] if chain else None
