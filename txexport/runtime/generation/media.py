"""Media in prompts: images and sounds, whose features replace placeholder token ids."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from txexport.contracts.names import IMAGE_FEATURES, PREFIX_LENGTHS
from txexport.errors import InputError
from txexport.runtime.session import Session

HIDDEN = -1  # the largest id in a medium; each of its positions has a different one


@dataclass(frozen=True)
class Medium:
    """An image or a sound at the token ids `position` to `position + length - 1` of a prompt.

    Two media with equal `digest`, from `digest_of`, are the same medium. `features` (length,W) are the
    vectors that stand in those places.
    """

    position: int
    length: int
    digest: bytes
    features: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def end(self) -> int:
        """The position after its last token id."""
        return self.position + self.length


Media: TypeAlias = tuple[Medium, ...]  # of one prompt, by position
Arrays: TypeAlias = dict[str, np.ndarray]


def digest_of(features: np.ndarray) -> bytes:
    """The SHA-256 of an array's dtype, shape and elements."""
    header = f"{features.dtype.str} {features.shape}".encode()
    return hashlib.sha256(header + b"\0" + features.tobytes()).digest()


def check_media(media: Media, length: int) -> None:
    """Raise InputError unless media are in order, without overlap, in a prompt of `length` token ids."""
    end = 0
    for medium in media:
        if medium.length < 1 or medium.position < end or medium.end > length:
            raise InputError(
                f"a medium is at position {medium.position} with length {medium.length}, expected a place of "
                f"its own from {end} to {length}"
            )
        end = medium.end


def shared_length(length: int, first: Media, second: Media) -> int:
    """The length of the common prefix of two prompts whose first `length` token ids are equal.

    It ends before the first medium that is not in both, and never within a medium.
    """
    for one, other in zip_longest(first, second):
        if one == other and one.end <= length:
            continue
        return min([length, *(medium.position for medium in (one, other) if medium is not None)])
    return length


def features_between(rows: Sequence[Media], starts: np.ndarray, counts: np.ndarray) -> list[np.ndarray]:
    """The vectors (n,W) of media in a part of each row, `counts` tokens from `starts` on, row by row."""
    parts = []
    for media, start, count in zip(rows, starts.tolist(), counts.tolist(), strict=True):
        for medium in media:
            first, last = max(start, medium.position), min(start + count, medium.end)
            if first < last and medium.features is not None:
                parts.append(medium.features[first - medium.position : last - medium.position])
    return parts


def hide(token_ids: Sequence[int], media: Media) -> Sequence[int]:
    """Token ids with a different negative number at each position of a medium."""
    if not media:
        return token_ids
    hidden = list(token_ids)
    for medium in media:
        hidden[medium.position : medium.end] = [HIDDEN - i for i in range(medium.position, medium.end)]
    return hidden


def prompt_inputs(
    session: Session, rows: int, features: Sequence[np.ndarray] = (), prompts: np.ndarray | None = None
) -> Arrays:
    """The inputs of media's vectors (N,W) and of the tokens of prompts (B), none by default.

    Nothing for a graph that reads no media, or whose prompts are not read otherwise than other tokens.
    """
    inputs = {}
    if IMAGE_FEATURES in session.inputs:
        width = session.inputs[IMAGE_FEATURES].shape[1]
        assert isinstance(width, int)
        inputs[IMAGE_FEATURES] = np.concatenate([np.zeros((0, width), np.float32), *features])
    if PREFIX_LENGTHS in session.inputs:
        inputs[PREFIX_LENGTHS] = np.zeros(rows, np.int64) if prompts is None else prompts
    return inputs
