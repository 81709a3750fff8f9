"""The memory there is: what cannot fit is refused before any is taken, and what comes back is used again."""

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
KEPT = 2**28  # bytes, of the largest block that a Spare holds
CONTAINER = Path("/sys/fs/cgroup/memory.max")  # of Linux's control groups, version 2


@cache
def total() -> int:
    """Bytes of memory of the machine, or of the container."""
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

    What others hold is not looked at: less may still swap, or be refused by the system.
    """
    if amount > total():
        raise InputError(
            f"{what} would take {amount / 2**30:,.1f} GiB of memory, of which there are "
            f"{total() / 2**30:,.1f}; choose fewer or shorter ones"
        )


class Spare:
    """Blocks of memory for one array after another, since the system takes its time to give it anew.

    There are two, so that a cache that grows finds what the one before it grew into. An array is one block,
    since of one that is large the system makes large pages, and few.
    """

    def __init__(self) -> None:
        self.blocks: deque[np.ndarray] = deque(maxlen=2)  # threads may take and give at once

    def zeros(self, size: int) -> np.ndarray:
        """`size` bytes of 0, aligned, to be used again when neither they nor views of them are left."""
        needed = size + ALIGNMENT
        block = self._smallest(needed)
        if block is None:
            block = np.zeros(needed, np.uint8)
        else:
            block[:needed] = 0  # of others' numbers nothing is left, nor NaN, which no mask hides
        loan = np.frombuffer(block.data, np.uint8)  # views of it hold it: an array's would hold that
        if len(block) <= KEPT:
            weakref.finalize(loan, self.blocks.append, block).atexit = False
        start = -loan.ctypes.data % ALIGNMENT
        return loan[start : start + size]

    def _smallest(self, size: int) -> np.ndarray | None:
        """Of the blocks that have so many bytes the smallest, which is then no longer here."""
        taken = []
        with contextlib.suppress(IndexError):
            while True:
                taken.append(self.blocks.popleft())
        block = min((block for block in taken if len(block) >= size), key=len, default=None)
        self.blocks.extend(other for other in taken if other is not block)
        return block
