"""Long recordings in overlapping pieces, as the speech recognition pipeline of transformers makes them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from txexport.errors import InputError, shown


@dataclass(frozen=True)
class Piece:
    """Samples (N,) of a sound; the first `left` and the last `right` are there for context only.

    `last` is the sound's last piece.
    """

    samples: np.ndarray
    left: int
    right: int
    last: bool = False

    def inner(self, outputs: np.ndarray, step: int) -> np.ndarray:
        """Of the outputs (S,) of a model that makes one of `step` samples, those outside of the context.

        A model of spectrograms may make one more for the last samples, which only the last piece keeps.
        """
        size = self.samples.size
        count = round(size * (1 / step))  # rounded as the original rounds it
        left, right = (round(context / size * count) for context in (self.left, self.right))
        return outputs[left:] if self.last else outputs[left : count - right]


@dataclass(frozen=True)
class Layout:
    """The `size` of pieces and the context on both sides, in samples."""

    size: int
    left: int
    right: int

    def pieces(self, blocks: Iterable[np.ndarray]) -> Iterator[Piece]:
        """The pieces of a sound that comes in blocks; no more than a piece and a block is in memory.

        The first piece has no context on its left, and the last has none on its right.
        """
        rest, left = np.empty(0, np.float32), 0
        for block in blocks:
            rest = np.concatenate([rest, block])
            while rest.size > self.size:
                yield Piece(rest[: self.size], left, self.right)
                rest, left = rest[self.size - self.left - self.right :], self.left
        if rest.size > left:
            yield Piece(rest, left, 0, last=True)


def layout(length: float, stride: Any, rate: int, step: int) -> Layout:
    """Pieces of `length` seconds whose context is `stride` seconds: a number for both sides, or two.

    `stride` is by default a sixth of the length. All are rounded to multiples of `step` samples. Raises
    InputError where no samples would be left between the contexts.
    """
    stride = length / 6 if stride is None else stride
    sides = tuple(stride) if isinstance(stride, list | tuple) else (stride, stride)
    if len(sides) != 2 or not all(_is_duration(side) for side in sides):
        raise InputError(f"stride_length_s is {shown(stride)}, expected seconds from 0, or two of them")
    size, left, right = (round(value * rate / step) * step for value in (length, *sides))
    if not size:
        raise InputError(f"chunk_length_s is {length:g}, expected at least {step / rate:g}, or 0")
    if size <= left + right:
        raise InputError(
            f"pieces of {length:g} s have no samples beside contexts of {sides[0]:g} and {sides[1]:g} s; "
            "choose a longer chunk_length_s or a shorter stride_length_s"
        )
    return Layout(size, left, right)


def check_piece(length: Any) -> None:
    """Raise InputError unless `length` is seconds from 0 or None."""
    if length is not None and not _is_duration(length):
        raise InputError(f"chunk_length_s is {shown(length)}, expected seconds from 0")


def _is_duration(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return bool(number and 0 <= value < 1e6)
