"""Buffers in a device's memory that one cache after another uses.

A CUDA graph reads and writes the addresses with which it was captured, so it lasts as long as its buffers.
"""

import contextlib
import math
import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort

KEPT = 2**30  # bytes of buffers that no cache uses; of more, the oldest are freed, but never the last


@dataclass(eq=False)
class Loan:
    """Buffers (B,K,C,H) by name, which belong to a cache as long as something holds this object.

    `runs` is what engines keep of runs that are bound to these buffers.
    """

    values: Mapping[str, ort.OrtValue]
    runs: dict[Any, Any] = field(default_factory=dict)

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Fill the buffers with arrays of their shapes."""
        for name, array in arrays.items():
            self.values[name].update_inplace(np.ascontiguousarray(array))


Shapes = Mapping[str, tuple[tuple[int, ...], type[np.generic]]]
Layout = tuple[tuple[str, tuple[tuple[int, ...], type[np.generic]]], ...]


class DeviceBuffers:
    """Lends buffers in `memory`, and lends them again when the loan has ended."""

    def __init__(self, memory: str):
        self._memory = memory
        self._free: deque[tuple[Layout, Loan]] = deque()  # thread-safe; the one used last at the end

    def borrow(self, shapes: Shapes) -> Loan:
        """Buffers of these shapes and types by name, with any content."""
        layout: Layout = tuple(shapes.items())
        lent = self._taken(layout)
        if lent is None:
            try:
                lent = self._new(shapes)
            except Exception:  # the memory of the device may be full
                self._free.clear()
                lent = self._new(shapes)
        loan = Loan(lent.values, lent.runs)
        weakref.finalize(loan, self._returned, layout, lent).atexit = False
        return loan

    def _new(self, shapes: Shapes) -> Loan:
        return Loan(
            {
                name: ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, self._memory, 0)
                for name, (shape, kind) in shapes.items()
            }
        )

    def _taken(self, layout: Layout) -> Loan | None:
        """Remove and return the free buffers of a layout that were used last, or None."""
        free: list[tuple[Layout, Loan]] = []
        with contextlib.suppress(IndexError):
            while True:
                free.append(self._free.pop())
        taken = next((one for one in free if one[0] == layout), None)
        self._free.extendleft(one for one in free if one is not taken)
        return None if taken is None else taken[1]

    def _returned(self, layout: Layout, lent: Loan) -> None:
        """Keep buffers whose loan has ended; free the oldest others where there are too many."""
        self._free.append((layout, lent))
        with contextlib.suppress(IndexError):
            while len(self._free) > 1 and sum(_bytes(one) for one, _ in tuple(self._free)) > KEPT:
                self._free.popleft()


def _bytes(layout: Layout) -> int:
    return sum(math.prod(shape) * np.dtype(kind).itemsize for _, (shape, kind) in layout)
