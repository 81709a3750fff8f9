"""Limits on the texts of requests, and the text of a row up to a stop string."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from txexport.runtime.generation.running_batch import RunningRow
from txexport.runtime.preprocessing.pieces import Pieces
from txexport.runtime.preprocessing.text import Text
from txexport.server.refusals import RefusedError

GROUP = 2**16  # characters that are tokenized at once; a call can be cancelled between groups
LEAST = 32  # characters
T = TypeVar("T")


def strings(value: Any) -> list[str]:
    """The texts in a JSON value that is a text, a page or nested lists of these; none in other values.

    The words of a page are one text.
    """
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict) and "words" in value:
        return [" ".join(strings(value.get("words")))]
    return [text for one in value for text in strings(one)] if isinstance(value, list) else []


def groups(inputs: Sequence[T]) -> Iterator[list[T]]:
    """Split inputs, in order, into groups of at most GROUP characters and at least one input.

    An input counts as LEAST characters or more: each is read with tokens of its own.
    """
    group: list[T] = []
    length = 0
    for one in inputs:
        size = max(LEAST, sum(map(len, strings(one))))
        if group and length + size > GROUP:
            yield group
            group, length = [], 0
        group.append(one)
        length += size
    if group:
        yield group


def check_together(*values: Any, most: int, crossed: bool = True) -> None:
    """Raise RefusedError if the texts that are read together have more than `most` characters.

    A single text is read with each of several. Where `crossed`, each text of a list is read with each of
    another; otherwise the first with the first, and so on.
    """
    lists = [texts for texts in map(strings, values) if texts]
    counts = [len(texts) for texts in lists]
    pairs = math.prod(counts) if crossed else max(counts, default=0)
    total = 0
    for texts in lists:
        lengths = list(map(len, texts))
        even = crossed or len(texts) in (1, pairs)
        total += sum(lengths) * pairs // len(texts) if even else max(lengths) * pairs
    if total > most:
        raise RefusedError(
            f"the texts have {total:,} characters as they are read together, and this server reads {most:,} "
            "at once; send fewer",
            413,
        )


class RowText:
    """The text of a row as it grows. Text that may be the start of a stop string is held back.

    `marks` are special tokens that stay in the text, by their ids.
    """

    def __init__(
        self, text: Text, row: RunningRow, stops: Sequence[str], marks: Mapping[int, str] | None = None
    ):
        self.row, self.stops, self.text, self.pieces = row, stops, text, Pieces(text)
        self.marks = marks or {}
        self.read, self.held, self.cut, self.ended = 0, "", False, False

    def more(self) -> str:
        """The text of the row's new tokens."""
        tokens = self.row.result.tokens
        ends = self.row.done  # before the tokens are counted: none comes after it
        while self.read < len(tokens):
            token = tokens[self.read]
            if token in self.marks:
                self.held += self.pieces.rest() + self.marks[token]
                self.pieces = Pieces(self.text)
            else:
                self.held += self.pieces.add(token)
            self.read += 1
        if ends and not self.ended:
            self.held += self.pieces.rest()
            self.ended = True
        return self._released()

    def _released(self) -> str:
        if self.cut:
            return ""
        positions = [at for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if positions:
            self.cut, out, self.held = True, self.held[: min(positions)], ""
            return out
        begun = 0 if self.ended else max((overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[: len(self.held) - begun], self.held[len(self.held) - begun :]
        return out

    @property
    def finish_reason(self) -> str | None:
        """Why the row ended; None while it runs."""
        if not self.ended:
            return None
        return "stop" if self.row.closed or self.cut else "length"


def overlap(text: str, stop: str) -> int:
    """The number of characters at the end of a text with which a stop string begins."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
