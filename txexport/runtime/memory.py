"""Memory: refuses allocations that cannot fit, and reuses freed blocks."""

import contextlib
import os
import weakref
from collections import deque
from functools import cache
from pathlib import Path

import numpy as np

from txexport.errors import InputError

UNKNOWN = 2**36  # bytes, where the system does not say
ALIGNMENT = 64  # bytes: a cache line
KEPT = 2**28  # bytes, of the largest block that a BufferPool keeps
CONTAINER = Path("/sys/fs/cgroup/memory.max")  # of Linux's control groups, version 2


@cache
def total() -> int:
    """The memory of the machine or the container, in bytes."""
    try:
        size = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        size = UNKNOWN
    try:
        return min(size, int(CONTAINER.read_text(encoding="ascii")))
    except (OSError, ValueError):  # no container, or one without a limit
        return size


def check(what: str, amount: int) -> None:
    """Raise InputError where `what` takes more bytes than the machine has.

    Memory in use is not considered: a smaller amount may still swap or be refused by the system.
    """
    if amount > total():
        raise InputError(
            f"{what} would take {amount / 2**30:,.1f} GiB of memory, of which there are "
            f"{total() / 2**30:,.1f}; choose fewer or shorter ones"
        )


class BufferPool:
    """Reuses blocks of memory for one array after another, since new pages are slow to map.

    It keeps two, so that a growing cache finds the blocks of the cache before it. An array is one block, so
    that the system can use large pages.
    """

    def __init__(self) -> None:
        self.blocks: deque[np.ndarray] = deque(maxlen=2)  # thread-safe

    def zeros(self, size: int) -> np.ndarray:
        """An aligned array of `size` zero bytes, whose block is reused once no view of it is left."""
        needed = size + ALIGNMENT
        block = self._smallest(needed)
        if block is None:
            block = np.zeros(needed, np.uint8)
        else:
            block[:needed] = 0  # masks do not hide NaN
        loan = np.frombuffer(block.data, np.uint8)  # views keep `loan` alive, and with it the block
        if len(block) <= KEPT:
            weakref.finalize(loan, self.blocks.append, block).atexit = False
        start = -loan.ctypes.data % ALIGNMENT
        return loan[start : start + size]

    def _smallest(self, size: int) -> np.ndarray | None:
        """Remove and return the smallest block of at least `size` bytes, or None."""
        taken = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self.blocks.popleft())
        block = min((block for block in taken if len(block) >= size), key=len, default=None)
        self.blocks.extend(other for other in taken if other is not block)
        return block
