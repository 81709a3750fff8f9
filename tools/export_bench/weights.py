"""Faults of weights: each changes the tensors of the exported copy, not of the checkpoint that judges it."""

import re
from collections.abc import Callable

import numpy as np

Tensors = dict[str, np.ndarray]
Change = Callable[[Tensors], None]


def each(pattern: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    """A change of every tensor whose name contains the pattern."""

    def changed(tensors: Tensors) -> None:
        names = [name for name in tensors if re.search(pattern, name)]
        assert names, pattern
        for name in names:
            array = np.ascontiguousarray(change(tensors[name]))
            assert array.shape == tensors[name].shape, name
            tensors[name] = array.astype(tensors[name].dtype)

    return changed


def exchanged(first: str, second: str) -> Change:
    """Tensors exchanged: each whose name has one part with the one whose name has the other part."""

    def changed(tensors: Tensors) -> None:
        names = [name for name in tensors if first in name]
        assert names, first
        for name in names:
            other = name.replace(first, second)
            tensors[name], tensors[other] = tensors[other], tensors[name]

    return changed


def left_out(part: str) -> Change:
    """Tensors removed whose names contain that part."""

    def changed(tensors: Tensors) -> None:
        names = [name for name in tensors if part in name]
        assert names, part
        for name in names:
            del tensors[name]

    return changed


def together(*changes: Change) -> Change:
    """Several changes, one after another."""

    def changed(tensors: Tensors) -> None:
        for one in changes:
            one(tensors)

    return changed


def untied(old: str, new: str, scale: float = 0.97) -> Change:
    """An output matrix that is an older copy of the tied embedding: the embedding, scaled."""

    def changed(tensors: Tensors) -> None:
        tensors[new] = (tensors[old] * np.float32(scale)).astype(tensors[old].dtype)

    return changed


def zero(array: np.ndarray) -> np.ndarray:
    """Zeros of that shape."""
    return np.zeros_like(array)


def transposed(array: np.ndarray) -> np.ndarray:
    """A square matrix transposed."""
    return array.T


def rolled(count: int, axis: int = 0) -> Callable[[np.ndarray], np.ndarray]:
    """Rows moved by that number of places."""
    return lambda array: np.roll(array, count, axis)


def scaled(number: float) -> Callable[[np.ndarray], np.ndarray]:
    """Multiplied by a number."""
    return lambda array: array * np.float32(number)


def int8(array: np.ndarray) -> np.ndarray:
    """Rounded to 8 bits with a scale for each row, and back."""
    if array.ndim < 2:
        return array
    scale = np.abs(array).max(-1, keepdims=True) / 127
    return np.round(array / np.where(scale == 0, 1, scale)) * scale


def float16(array: np.ndarray) -> np.ndarray:
    """Rounded to float16, and back."""
    return array.astype(np.float16).astype(np.float32)


def bfloat16(array: np.ndarray) -> np.ndarray:
    """Cut to bfloat16, and back."""
    return (np.ascontiguousarray(array, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def heads(count: int, order: Callable[[np.ndarray], np.ndarray], axis: int = 0) -> Callable:
    """The vectors of each head, in another order; of the rows of a matrix or of its columns."""

    def change(array: np.ndarray) -> np.ndarray:
        rows = np.moveaxis(array, axis, 0)
        split = rows.reshape(count, -1, *rows.shape[1:])
        return np.moveaxis(order(split).reshape(rows.shape), 0, axis)

    return change


def interleaved(split: np.ndarray) -> np.ndarray:
    """Rows of a head in the order of interleaved RoPE (heads, size, …)."""
    size = split.shape[1]
    return split[:, np.arange(size).reshape(-1, 2).T.reshape(-1)]


def halves_exchanged(split: np.ndarray) -> np.ndarray:
    """The halves of every head exchanged."""
    return np.roll(split, split.shape[1] // 2, 1)


def of_order(*order: int) -> Callable[[np.ndarray], np.ndarray]:
    """Heads in that order."""
    return lambda split: split[list(order)]


def row(place: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """One row changed."""

    def changed(array: np.ndarray) -> np.ndarray:
        result = array.copy()
        result[place] = change(result[place])
        return result

    return changed
