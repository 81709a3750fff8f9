"""Buffers in a device's memory that one cache after another uses.

A CUDA graph reads and writes the addresses with which it was captured, so it lasts as long as its buffers.
"""

import weakref
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort

KEPT = 2**30  # bytes of buffers that no cache uses; the oldest of more are freed


@dataclass(eq=False)
class Loan:
    """Buffers (B,K,C,H) by name, which belong to a cache as long as something holds this object.

    `runs` is what an engine keeps of runs that are bound to these buffers.
    """

    values: Mapping[str, ort.OrtValue]
    runs: dict[str, Any] = field(default_factory=dict)

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Fill the buffers with arrays of their shapes."""
        for name, array in arrays.items():
            self.values[name].update_inplace(np.ascontiguousarray(array))


Layout = tuple[tuple[tuple[str, tuple[int, ...]], ...], np.dtype]


class DeviceBuffers:
    """Lends buffers in `memory`, and lends them again when the loan has ended."""

    def __init__(self, memory: str):
        self._memory = memory
        self._free: deque[tuple[Layout, Loan]] = deque()  # thread-safe; the one used last at the end

    def borrow(self, shapes: Mapping[str, tuple[int, ...]], kind: type[np.generic]) -> Loan:
        """Buffers of these shapes and type, with any content."""
        layout: Layout = tuple(shapes.items()), np.dtype(kind)
        lent = self._taken(layout) or Loan(
            {
                name: ort.OrtValue.ortvalue_from_shape_and_type(shape, kind, self._memory, 0)
                for name, shape in shapes.items()
            }
        )
        loan = Loan(lent.values, lent.runs)
        weakref.finalize(loan, self._free.append, (layout, lent)).atexit = False
        return loan

    def _taken(self, layout: Layout) -> Loan | None:
        """Remove and return free buffers of a layout, or None; free the oldest where there are too many."""
        free = [self._free.pop() for _ in range(len(self._free))]  # the newest first
        taken = next((lent for theirs, lent in free if theirs == layout), None)
        room = KEPT
        for theirs, lent in free:
            room -= _bytes(theirs)
            if lent is not taken and room >= 0:
                self._free.appendleft((theirs, lent))
        return taken


def _bytes(layout: Layout) -> int:
    shapes, kind = layout
    return sum(int(np.prod(shape, dtype=np.int64)) * kind.itemsize for _, shape in shapes)
