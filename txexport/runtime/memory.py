"""The memory there is, so that what cannot fit is refused before any of it is taken."""

import os
from functools import cache
from pathlib import Path

from txexport.errors import InputError

UNKNOWN = 2**36  # bytes, where the system does not say
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
