"""Segments of a window's tokens, by its timestamp tokens (Radford et al. 2022, 3.8)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from txexport.runtime.tasks.transcript import Decoded

STRIDE = 2  # frames of an encoder position, which is also the step of timestamps


@dataclass(frozen=True)
class TokenSegment:
    """The tokens of a segment, timestamps included; times are in seconds, None where not known."""

    start: float | None
    end: float | None
    tokens: list[int]
    decoded: Decoded | None = None


@dataclass(frozen=True)
class Clock:
    """The timestamps of a model: `first` is the token of 0.00 s, `step` the seconds between two of them."""

    first: int
    step: float

    def is_time(self, token: int) -> bool:
        """Return whether a token is a timestamp."""
        return token >= self.first

    def seconds(self, token: int, seek: int) -> float:
        """The time of a timestamp token in a window that begins at the frame `seek`."""
        return self.at(token - self.first, seek)

    def at(self, position: int, seek: int) -> float:
        """The time of an encoder position in a window that begins at the frame `seek`."""
        return round(seek * self.step / STRIDE + position * self.step, 2)


def split(tokens: Sequence[int], clock: Clock, seek: int, frames: int) -> tuple[list[TokenSegment], int]:
    """The segments of a window's tokens without the end of sequence, and the frames to advance.

    The window has `frames` frames from the frame `seek`. Two timestamps after one another end a segment and
    begin the next; what follows the last pair is left to the next window, which begins at its time. A
    segment without an end timestamp has no known end.
    """
    if not tokens:
        return [], frames
    times = [clock.is_time(token) for token in tokens]
    ends = [i + 1 for i in range(len(tokens) - 1) if times[i] and times[i + 1]]
    if not ends:
        return [_segment(tokens, clock, seek)], frames
    advance = frames
    if times[-2:] == [False, True]:  # no speech after the last timestamp
        ends.append(len(tokens))
    else:
        advance = (tokens[ends[-1] - 1] - clock.first) * STRIDE or frames
        ends[-1] += 1
    starts = [0, *ends[:-1]]
    return [_segment(tokens[a:b], clock, seek) for a, b in zip(starts, ends, strict=True)], advance


def without_second_end(tokens: list[int], clock: Clock) -> list[int]:
    """The tokens with one of two timestamps at their end, as the next window reads them."""
    return tokens[:-1] if len(tokens) > 2 and clock.is_time(tokens[-2]) else tokens


def _segment(tokens: Sequence[int], clock: Clock, seek: int) -> TokenSegment:
    start = clock.seconds(tokens[0], seek) if clock.is_time(tokens[0]) else None
    indices = np.flatnonzero([clock.is_time(token) for token in tokens[1:]])
    end = clock.seconds(tokens[int(indices[0]) + 1], seek) if len(indices) else None
    return TokenSegment(start, end, list(tokens))
