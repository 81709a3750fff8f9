"""Tokens of a row as text that ends before a stop string."""

from collections.abc import Sequence

from txexport.runtime.generation.running_batch import RunningRow
from txexport.runtime.preprocessing.pieces import Pieces
from txexport.runtime.preprocessing.text import Text


class RowText:
    """The text of a row as it grows. What may become a stop string is held back until it is none."""

    def __init__(self, text: Text, row: RunningRow, stops: Sequence[str]):
        self.row, self.stops, self.pieces = row, stops, Pieces(text)
        self.read, self.held, self.cut, self.ended = 0, "", False, False

    def more(self) -> str:
        """What the row's new tokens add."""
        tokens = self.row.result.tokens
        ends = self.row.done  # before the tokens are counted: none comes after it
        while self.read < len(tokens):
            self.held += self.pieces.add(tokens[self.read])
            self.read += 1
        if ends and not self.ended:
            self.held += self.pieces.rest()
            self.ended = True
        return self._released()

    def _released(self) -> str:
        if self.cut:
            return ""
        found = [at for stop in self.stops if (at := self.held.find(stop)) >= 0]
        if found:
            self.cut, out, self.held = True, self.held[: min(found)], ""
            return out
        kept = 0 if self.ended else max((_overlap(self.held, stop) for stop in self.stops), default=0)
        out, self.held = self.held[: len(self.held) - kept], self.held[len(self.held) - kept :]
        return out

    @property
    def finish_reason(self) -> str | None:
        """Why the row ended; None while it goes on."""
        if not self.ended:
            return None
        return "stop" if self.row.closed or self.cut else "length"


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of a text a stop string may begin with."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
