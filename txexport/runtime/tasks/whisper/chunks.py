"""Chunks of speech between timestamps, over overlapping pieces of a sound, as in transformers' pipeline."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from txexport.runtime.tasks.whisper.segments import Clock
from txexport.runtime.tasks.whisper.words import TimedToken


@dataclass(frozen=True)
class Stride:
    """The length of a piece in seconds, and the context on both sides that its neighbours read too."""

    length: float
    left: float
    right: float


@dataclass(frozen=True)
class PieceTokens:
    """The tokens of a piece, timestamps included; `ends` are the times at which they end, or empty."""

    tokens: Sequence[int]
    ends: Sequence[float] = ()
    stride: Stride | None = None


@dataclass(frozen=True)
class Chunk:
    """The text between two timestamps; times are in seconds, None where not known."""

    start: float | None
    end: float | None
    tokens: list[TimedToken]


@dataclass
class Chunks:
    """Collects the chunks of a sound piece by piece; `window` is the length in seconds that a model reads.

    A timestamp in the context of a piece does not end a chunk: the next piece reads that speech too, and the
    tokens of both are joined at what they have in common.
    """

    clock: Clock | None
    special: Collection[int]
    window: float
    finished: list[Chunk] = field(default_factory=list)
    _start: float | None = None
    _earlier: list[list[TimedToken]] = field(default_factory=list)
    _offset: float = 0.0
    _skipping: bool = False

    def add(self, piece: PieceTokens) -> None:
        """Add the next piece."""
        stride = piece.stride
        self._offset -= stride.left if stride else 0
        first, last = self._bounds(piece)
        timeline = _Timeline(self.clock, self.window)
        current: list[TimedToken] = []
        for place, token in enumerate(piece.tokens):
            if token in self.special:
                continue
            if self.clock is None or not self.clock.is_time(token):
                current.append(self._timed(piece, place))
                continue
            time = timeline.seconds(piece.tokens, place, self._offset)
            if self._is_used(token, first, last):
                current = self._mark(time, current)
        self._offset += stride.length - stride.right if stride else 0
        if current:
            self._earlier.append(current)
        elif not any(self._earlier):
            self._start, self._earlier = None, []

    def finish(self) -> list[Chunk]:
        """All chunks; one that no timestamp ended is the last."""
        if self._earlier:
            self._end(None)
        return self.finished

    def _timed(self, piece: PieceTokens, place: int) -> TimedToken:
        """A token of text, from the end of the token before it to its own."""
        if not piece.ends:
            return TimedToken(piece.tokens[place])
        start = piece.ends[place - 1] if place else 0.0
        times = (round(time + self._offset, 2) for time in (start, piece.ends[place]))
        return TimedToken(piece.tokens[place], *times)

    def _bounds(self, piece: PieceTokens) -> tuple[float, int | None]:
        """The first timestamp after the left context, and the one from which on they are skipped."""
        clock, stride, last = self.clock, piece.stride, None
        if clock is None or stride is None:
            return 0.0, None
        for token in reversed(piece.tokens) if stride.right else ():
            if clock.is_time(token):
                if last is not None and (token - clock.first) * clock.step < stride.length - stride.right:
                    break
                last = token
        return stride.left / clock.step + clock.first, last

    def _is_used(self, token: int, first: float, last: int | None) -> bool:
        """Return whether a timestamp may begin or end a chunk; of a pair in the context neither does."""
        if last is not None and token >= last:
            self._skipping = True
            return False
        if self._skipping or (self._earlier and token < first):
            self._skipping = False
            return False
        return True

    def _mark(self, time: float, current: list[TimedToken]) -> list[TimedToken]:
        """Begin or end a chunk at a time; returns the tokens that are in no chunk yet."""
        if self._start is None:
            self._start = time
        elif time != self._start:
            self._earlier.append(current)
            self._end(time)
            return []
        return current

    def _end(self, time: float | None) -> None:
        """End the chunk."""
        self.finished.append(Chunk(self._start, time, joined(self._earlier)))
        self._start, self._earlier = None, []


@dataclass
class _Timeline:
    """The times of timestamps in tokens of several windows, which each count from 0."""

    clock: Clock | None
    window: float
    _latest: float = 0.0
    _latest_but_one: float = 0.0
    _before: float = 0.0  # the length of earlier windows

    def seconds(self, tokens: Sequence[int], place: int, offset: float) -> float:
        """The time of the timestamp at a place; a new window begins where times decrease."""
        clock = self.clock
        assert clock is not None
        time = (tokens[place] - clock.first) * clock.step
        if time < self._latest:
            if place >= 2 and not (clock.is_time(tokens[place - 1]) and clock.is_time(tokens[place - 2])):
                self._before += self.window
            else:
                self._latest = self._latest_but_one
                self._before += self._latest_but_one
        self._latest_but_one, self._latest = self._latest, time
        return round(time + offset + self._before, 2)


def joined(sequences: Sequence[Sequence[TimedToken]]) -> list[TimedToken]:
    """Sequences of tokens as one, each joined to the next at the tokens that they have in common."""
    total: list[TimedToken] = []
    left = [*sequences[0]]
    for right in sequences[1:]:
        left_middle, right_middle = _overlap(left, right)
        total += left[:left_middle]
        left = [*right[right_middle:]]
    return total + left


def _overlap(left: Sequence[TimedToken], right: Sequence[TimedToken]) -> tuple[int, int]:
    """The middle of the best overlap of the end of one sequence with the beginning of another, in both.

    The best one has the largest share of equal tokens, two or more, and among equal shares the longest.
    """
    best, middles = 0.0, (len(left), 0)
    for shift in range(1, len(left) + len(right)):
        left_start, left_stop = max(0, len(left) - shift), min(len(left), len(left) + len(right) - shift)
        right_start, right_stop = max(0, shift - len(left)), min(len(right), shift)
        pairs = zip(left[left_start:left_stop], right[right_start:right_stop], strict=True)
        matches = sum(one.continues(other) for one, other in pairs)
        share = matches / shift + shift / 10000
        if matches > 1 and share > best:
            best, middles = share, ((left_start + left_stop) // 2, (right_start + right_stop) // 2)
    return middles
