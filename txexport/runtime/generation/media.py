"""Media in prompts: images and sounds, whose features replace placeholder token ids."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeAlias

import numpy as np

from txexport.contracts.names import CACHE_LENGTHS, NEW_LENGTHS, POSITION_IDS, PREFIX_LENGTHS, media_features
from txexport.errors import InputError
from txexport.runtime.image_keys import ImageKeys
from txexport.runtime.session import Session

HIDDEN = -1  # the largest id in a medium; each of its positions has a different one


@dataclass(frozen=True)
class Medium:
    """An image or a sound at the token ids `position` to `position + length - 1` of a prompt.

    Two media with equal `digest`, from `digest_of`, are the same medium. `features` (length,W) are the
    vectors that stand in those places. `grid` are rows and columns of the vectors; None unless the model has
    3D positions (M-RoPE). A decoder that attends to images has their `keys` instead, and a token for each.
    """

    position: int
    length: int
    digest: bytes
    features: np.ndarray | None = field(default=None, compare=False, repr=False)
    grid: tuple[int, int] | None = None
    keys: ImageKeys | None = field(default=None, compare=False, repr=False)

    @property
    def end(self) -> int:
        """The position after its last token id."""
        return self.position + self.length

    @property
    def skipped(self) -> int:
        """The number by which token indices after it exceed the positions.

        An image advances positions by its longer side, not by its number of tokens.
        """
        return 0 if self.grid is None else self.length - max(self.grid)


Media: TypeAlias = tuple[Medium, ...]  # of one prompt, by position
Arrays: TypeAlias = dict[str, np.ndarray]  # inputs of a graph by name


def digest_of(*arrays: np.ndarray) -> bytes:
    """The SHA-256 of the dtype, shape and elements of arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.dtype.str} {array.shape}".encode() + b"\0" + array.tobytes())
    return digest.digest()


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


def features_of(session: Session, lengths: Sequence[int], rows: Sequence[Media]) -> np.ndarray:
    """The vectors (N,W) of the media of whole prompts of these lengths, as an encoder reads them, row by row.

    There are none of a prompt without media, and without `rows`. An encoder that attends to an image reads
    them as (B,E,W).
    """
    shape = session.inputs[media_features(session.inputs)].shape
    if len(shape) == 3:
        return np.stack([image.features for (image,) in rows if image.features is not None])
    size = shape[1]
    assert isinstance(size, int)
    every, counts = rows or [()] * len(lengths), np.array(lengths)
    return np.concatenate(
        [np.zeros((0, size), np.float32), *features_between(every, np.zeros_like(counts), counts)]
    )


def hide(token_ids: Sequence[int], media: Media) -> Sequence[int]:
    """Token ids with a different negative number at each position of a medium."""
    if not media:
        return token_ids
    hidden = list(token_ids)
    for medium in media:
        hidden[medium.position : medium.end] = [HIDDEN - i for i in range(medium.position, medium.end)]
    return hidden


def step_inputs(
    session: Session,
    rows: Sequence[Media],
    starts: np.ndarray,
    counts: np.ndarray,
    width: int,
    prompts: bool = False,
) -> Arrays:
    """The inputs of a step beside token ids and cached arrays, as far as the graph has them.

    They are lengths (B) of the cache, positions (B,S) or (3,B,S), 0 at padding, numbers (B) of new tokens,
    lengths (B) of prefixes and vectors (N,W) of media. Each row has `counts` (B) new tokens from `starts` (B)
    on, padded to `width`. With `prompts`, the first step of a row contains its whole prompt, as
    prefix_lengths require.
    """
    inputs = {}
    if CACHE_LENGTHS in session.inputs:
        inputs[CACHE_LENGTHS] = starts
    if POSITION_IDS in session.inputs:
        real = np.arange(width) < counts[:, None]  # (B, S)
        in_3d = has_3d_positions(session)
        positions = positions_of(rows, starts, width) if in_3d else token_indices(starts, width)
        inputs[POSITION_IDS] = positions * real
    if NEW_LENGTHS in session.inputs:
        inputs[NEW_LENGTHS] = counts
    if PREFIX_LENGTHS in session.inputs:
        inputs[PREFIX_LENGTHS] = np.where(starts == 0, counts, 0) * prompts
    name = media_features(session.inputs)
    if name in session.inputs:
        size = session.inputs[name].shape[1]
        assert isinstance(size, int)
        features = features_between(rows, starts, counts)
        inputs[name] = np.concatenate([np.zeros((0, size), np.float32), *features])
    return inputs


def has_3d_positions(session: Session) -> bool:
    """Return whether a graph's tokens have positions (3,B,S): frame, row and column."""
    return len(session.inputs[POSITION_IDS].shape) == 3


def token_indices(starts: np.ndarray, count: int) -> np.ndarray:
    """The indices (B,S) of `count` tokens of each row from `starts` (B) on."""
    return starts[:, None] + np.arange(count)


def positions_of(rows: Sequence[Media], starts: np.ndarray, count: int) -> np.ndarray:
    """The positions (3,B,S), among media, of `count` tokens of each row from `starts` (B) on."""
    order = token_indices(starts, count)
    return np.stack([_of_row(media, row) for media, row in zip(rows, order, strict=True)], axis=1)


def _of_row(media: Media, order: np.ndarray) -> np.ndarray:
    """The positions (3,S) of the tokens at `order` (S): frame, row and column (Wang et al. 2024, 2.1).

    A text has the same on each axis. The vectors of an image count their rows and columns from the position
    behind the text before it, and the text behind it goes on from the largest of them.
    """
    result = np.repeat(order[None], 3, axis=0)
    for medium in media:
        if medium.grid is None:
            continue
        inside = (order >= medium.position) & (order < medium.end)
        within = order[inside] - medium.position
        first = result[0, inside] - within
        result[0, inside] = first
        result[1, inside] = first + within // medium.grid[1]
        result[2, inside] = first + within % medium.grid[1]
        result[:, order >= medium.end] -= medium.skipped
    return result
