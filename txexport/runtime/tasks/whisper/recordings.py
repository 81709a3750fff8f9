"""The state of a recording while its windows are decoded; M mel bands, F frames."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.runtime.tasks.transcript import Decoded
from txexport.runtime.tasks.whisper.chunks import PieceTokens, Stride
from txexport.runtime.tasks.whisper.segments import Clock, TokenSegment, split, without_second_end


@dataclass(eq=False)
class Recording:
    """The features (M,F) of a sound or of a piece of one, and its transcript up to the frame `seek`.

    `place` is the sound's position in the call, `piece` that of the piece in the sound, which overlaps others
    by `stride`. The first `frames` frames are not padding. With `timed` it gets timestamps, without it is one
    window. `conditioned` says whether the next window reads the tokens of earlier ones. `ends` are the times
    at which the tokens of `segments` end, or empty.
    """

    place: int
    features: np.ndarray
    timed: bool
    frames: int = 0
    piece: int = 0
    stride: Stride | None = None
    language: int | None = None
    conditioned: bool = False
    seek: int = 0
    segments: list[TokenSegment] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.length = self.features.shape[1]

    @property
    def done(self) -> bool:
        """Return whether all of it is decoded."""
        return self.seek >= self.length

    @property
    def tokens(self) -> PieceTokens:
        """Its tokens, with their times if there are any."""
        tokens = [token for segment in self.segments for token in segment.tokens]
        return PieceTokens(tokens, self.ends, self.stride)

    def window(self, frames: int) -> np.ndarray:
        """The features (M,frames) from `seek`, padded with zeros."""
        window = self.features[:, self.seek : self.seek + frames]
        return np.pad(window, ((0, 0), (0, frames - window.shape[1])))

    def advance(
        self,
        tokens: list[int] | None,
        clock: Clock | None,
        frames: int,
        positions: Sequence[int] = (),
        decoded: Decoded | None = None,
    ) -> None:
        """Add the tokens of a window of `frames` frames, which end at `positions`; None skips it."""
        count = len(self.segments)
        self._add(tokens, clock, frames, positions)
        self.segments[count:] = [replace(one, decoded=decoded) for one in self.segments[count:]]
        if self.done:
            self.features = self.features[:, :0].copy()  # gives back the memory

    def _add(
        self, tokens: list[int] | None, clock: Clock | None, frames: int, positions: Sequence[int]
    ) -> None:
        left = min(frames, self.length - self.seek)
        if tokens is None:
            self.seek += left
        elif not self.timed or clock is None:
            self.segments.append(TokenSegment(None, None, tokens))
            self.seek = self.length
        else:
            segments, frames = split(tokens, clock, self.seek, left)
            self.segments += segments
            count = sum(len(segment.tokens) for segment in segments)
            self.ends += [clock.at(position, self.seek) for position in positions[:count]]
            self.seek += frames


@dataclass(frozen=True)
class Prompting:
    """The tokens before a window's own: `ids` are a prompt's, `before_history` the token before earlier ones.

    With `every_window` the prompt precedes the history of every window, else it is the history's beginning.
    At most `most` tokens of history are read.
    """

    ids: Sequence[int]
    every_window: bool
    before_history: Sequence[int]
    most: int

    def tokens(self, recording: Recording, clock: Clock | None, begin: list[int]) -> list[int]:
        """The decoder's first tokens for the next window; `begin` are those of every window."""
        history: list[int] = [] if self.every_window else [*self.ids[1:]]
        if clock is not None:
            for segment in recording.segments:
                history += without_second_end(segment.tokens, clock)
        if not recording.conditioned or not (recording.segments or history):
            return [*self.ids, *begin]
        before = self.ids if self.every_window and self.ids else self.before_history
        return [*before, *history[-self.most :], *begin]
