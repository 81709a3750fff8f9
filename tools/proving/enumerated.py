"""Everything of a bounded size: masks, splits into pieces, rewinds, and batches of them."""

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, pairwise, product
from typing import TypeVar

import numpy as np

T = TypeVar("T")
TOKENS = 6  # of a mask, and of the text after a source
SPLIT = 8  # tokens of a text that is split


def masks(length: int) -> list[tuple[int, ...]]:
    """Every mask of `length` places with at least one token."""
    return [mask for mask in product((0, 1), repeat=length) if any(mask)]


def splits(length: int) -> list[tuple[int, ...]]:
    """Every way to read `length` tokens in pieces: 2^(length - 1) of them."""
    result = []
    for count in range(length):
        for cuts in combinations(range(1, length), count):
            edges = (0, *cuts, length)
            result.append(tuple(b - a for a, b in pairwise(edges)))
    return result


def batches(rows: Sequence[T], most: int) -> list[tuple[T, ...]]:
    """Every batch of one to `most` of these rows, in one order."""
    return [one for count in range(1, most + 1) for one in combinations_with_replacement(rows, count)]


def mask_batches() -> Iterator[tuple[str, np.ndarray]]:
    """Masks (B,S) by name, for each length: all in one batch, each alone, in pairs and threes if short.

    Pairs are of up to three tokens, threes of up to two.
    """
    for length in range(1, TOKENS + 1):
        every = masks(length)
        yield f"all masks of {length}", np.array(every, bool)
        most = {1: 3, 2: 3, 3: 2}.get(length, 1)
        for number, rows in enumerate(batches(every, most)):
            yield f"masks of {length}, {number}", np.array(rows, bool)


def steps_of(rows: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The steps (steps,B) of a batch in which each row is split in its way; a row that is done reads none."""
    steps = np.zeros((max(map(len, rows)), len(rows)), np.int64)
    for place, pieces in enumerate(rows):
        steps[: len(pieces), place] = pieces
    return steps
