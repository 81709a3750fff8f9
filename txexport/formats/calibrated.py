"""int4 with integers that were calibrated on texts and cannot be derived from the numbers alone."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from txexport.formats.gptq import MOST_STEPS, between
from txexport.formats.int4 import Finder, Found, Int4, searched
from txexport.formats.number_format import unpacked

Integers: TypeAlias = Callable[[str, str], np.ndarray]  # by dtype and parameter: the stored bytes


class CalibratedInt4(Int4):
    """Scales and zeros of the search with `given` integers, as bytes: packed, (in,out).

    Each integer is one of the two neighbours of its number; any other is moved to the closer neighbour.
    """

    most_steps = 1.01 * MOST_STEPS  # both sides of a comparison are rounded to float32

    def __init__(self, block: int, given: Callable[[], np.ndarray]):
        super().__init__(block)
        self.given = given

    def finder(self, shape: tuple[int, ...]) -> Finder:
        """See Int4."""
        whole = unpacked(self.given(), shape[::-1])

        def find(rows: np.ndarray, first: int) -> Found:
            _, zeros, scales = searched(rows, self.block)
            integers = whole[:, first : first + len(rows)].T.copy()
            for number, start in enumerate(range(0, shape[1], self.block)):
                rows_of_block = slice(start, start + self.block)
                low, high = between(
                    rows[:, rows_of_block].T, scales[:, number], zeros[:, number].astype(np.float32)
                )
                integers[:, rows_of_block] = integers[:, rows_of_block].clip(low.T, high.T)
            return integers, zeros, scales

        return find
