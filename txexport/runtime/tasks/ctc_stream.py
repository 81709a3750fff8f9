"""Transcripts of a CTC model's outputs that come in pieces; S vectors of a piece."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from txexport.runtime.preprocessing.ctc_tokenizer import CTCTokenizer
from txexport.runtime.tasks.transcript import Decoded, Segment, Transcript, Word

PAUSE = 0.5  # seconds without a word that end a segment
LONGEST_SEGMENT = 7.0  # seconds, the longest that a subtitle stays
WIDEST_SEGMENT = 84  # characters, two lines of a subtitle
QUOTES = re.compile(r"( ')+\Z")  # which the clean-up joins to the words before and after them


@dataclass
class SettledIds:
    """Token ids that further ids cannot change, as `CTCTokenizer.settled` says."""

    tokenizer: CTCTokenizer
    by_word: bool
    ids: list[int] = field(default_factory=list)
    first: int = 0  # the index of ids[0]
    begun: bool = False  # whether the ids before that had a token

    def add(self, ids: Sequence[int], last: bool) -> tuple[list[int], int, bool]:
        """The ids that these settle, the index of the first, and whether there were tokens before it.

        With `last` all are settled.
        """
        self.ids += ids
        cut = len(self.ids) if last else self.tokenizer.settled(self.ids, self.by_word, self.begun)
        settled, start, begun = self.ids[:cut], self.first, self.begun
        self.ids, self.first = self.ids[cut:], start + cut
        self.begun = begun or self.tokenizer.tokens(settled) != ()
        return settled, start, begun


class GrowingText:
    """The text of token ids that come in pieces."""

    def __init__(self, tokenizer: CTCTokenizer):
        self.tokenizer, self.settled = tokenizer, SettledIds(tokenizer, by_word=False)
        self.held, self.begun = "", False

    def add(self, ids: Sequence[int], last: bool) -> str:
        """The text that these ids complete."""
        vocabulary = self.tokenizer.vocabulary
        settled, _, begun = self.settled.add(ids, last)
        self.held += self.tokenizer.raw(settled, begun)
        if vocabulary.strips and not self.begun:
            self.held = self.held.lstrip()
        body = self.held.rstrip() if vocabulary.strips or not last else self.held
        if vocabulary.cleaning.tidy and not last:
            body = QUOTES.sub("", body)
        self.held, self.begun = self.held[len(body) :], self.begun or body != ""
        return vocabulary.cleaned(body)


class GrowingTranscript:
    """The transcript of outputs that come in pieces; a vector takes `step` seconds."""

    def __init__(self, tokenizer: CTCTokenizer, step: tuple[int, int]):
        self.tokenizer, self.step = tokenizer, step  # samples of a vector, and their rate
        self.text, self.settled = GrowingText(tokenizer), SettledIds(tokenizer, by_word=True)
        self.group: list[Word] = []  # the words of a segment that may go on
        self.outputs: list[tuple[int, float]] = []  # ids and log-probabilities from its beginning on
        self.first = 0  # the index of outputs[0]

    def add(self, ids: Sequence[int], log_probs: Sequence[float], last: bool = False) -> Transcript:
        """The text, segments and words that a piece completes; after the `last` one all are complete."""
        self.outputs += zip(ids, log_probs, strict=True)
        settled, first, begun = self.settled.add(ids, last)
        timed = [
            Word(self._seconds(first + start), self._seconds(first + end), text)
            for text, start, end in self.tokenizer.words(settled, begun)
        ]
        end = first + len(settled)
        segments = [self._segment(group) for group in self._groups(timed, self._seconds(end), last)]
        if not self.group:
            self._forget(end)
        return Transcript(self.text.add(ids, last), tuple(segments), tuple(timed))

    def _seconds(self, vector: int) -> float:
        samples, rate = self.step
        return vector * samples / rate

    def _vector(self, seconds: float | None) -> int:
        samples, rate = self.step
        return round((seconds or 0) * rate / samples)

    def _groups(self, timed: Sequence[Word], end: float, last: bool) -> Iterator[list[Word]]:
        """The groups of words that are complete; no further word begins before `end`."""
        *groups, group = [*grouped([*self.group, *timed])] or [[]]
        yield from groups
        if group and (last or end - (group[-1].end or 0) >= PAUSE):
            yield group
            group = []
        self.group = group

    def _segment(self, group: Sequence[Word]) -> Segment:
        start, end = (self._vector(time) for time in (group[0].start, group[-1].end))
        self._forget(start)
        outputs = self.outputs[: end - start]
        decoded = Decoded(
            tokens=self.tokenizer.tokens([number for number, _ in outputs]),
            seconds=self._seconds(start),
            avg_logprob=float(np.mean([log_prob for _, log_prob in outputs])),
        )
        text = self.tokenizer.join(word.text for word in group)
        return Segment(group[0].start, group[-1].end, text, decoded)

    def _forget(self, vector: int) -> None:
        """Drop the outputs before a vector."""
        self.outputs, self.first = self.outputs[max(0, vector - self.first) :], max(vector, self.first)


def grouped(timed: Iterable[Word]) -> Iterator[list[Word]]:
    """Words with times in groups, each a segment."""
    group: list[Word] = []
    for word in timed:
        if group and _ends_before(word, group):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _ends_before(word: Word, group: Sequence[Word]) -> bool:
    """Return whether a segment ends before this word: after a pause, or because it would be too long."""
    first, last = group[0], group[-1]
    width = sum(1 + len(other.text) for other in group) + len(word.text)
    pause, seconds = (word.start or 0) - (last.end or 0), (word.end or 0) - (first.start or 0)
    return pause >= PAUSE or seconds > LONGEST_SEGMENT or width > WIDEST_SEGMENT
