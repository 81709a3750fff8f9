"""Progress of long operations, reported to a function or on standard error."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

from txexport.errors import InputError, shown

Counting: TypeAlias = Callable[[int, int], None]  # receives the number done and the total
Naming: TypeAlias = Callable[[str], None]  # receives the name of the next step
Progress: TypeAlias = Counting | bool  # True shows it on standard error
EVERY = 0.1  # seconds between two lines


def counting(progress: Progress | None) -> Counting:
    """The function to call with the number done and the total. Raises InputError for a wrong `progress`."""
    if progress is True:
        return _Counter()
    return _function(progress, lambda done, total: None)


def naming(progress: Naming | bool | None) -> Naming:
    """The function to call with the name of each step. Raises InputError for a wrong `progress`."""
    if progress is True:
        return lambda name: print(name, file=sys.stderr, flush=True)
    return _function(progress, lambda name: None)


def _function(progress: object, silent: Callable) -> Callable:
    if progress is None or progress is False:
        return silent
    if not callable(progress):
        raise InputError(f"progress is {shown(progress)}, expected true, false or a function")
    return progress


class _Counter:
    """A counter in one line on standard error, rewritten until all is done."""

    def __init__(self) -> None:
        self.shown_at = 0.0

    def __call__(self, done: int, total: int) -> None:
        now, end = time.monotonic(), done >= total
        if not end and now - self.shown_at < EVERY:
            return
        self.shown_at = now
        print(f"\r{done:,} of {total:,}", end="\n" if end else "", file=sys.stderr, flush=True)


class Numbered:
    """Names each of `total` steps with its number, and the time left if all steps take equally long.

    A line is "NAME: 3 of 40", and "NAME: 3 of 40, 1:20 left" once a step has ended.
    """

    def __init__(self, tell: Naming, total: int = 0, clock: Callable[[], float] = time.monotonic):
        self.tell, self.total, self.clock = tell, total, clock
        self.begun, self.start = 0, 0.0

    def __call__(self, name: str) -> None:
        done, self.begun = self.begun, self.begun + 1
        self.start = self.start if done else self.clock()
        total = max(self.total, self.begun)
        left = round((self.clock() - self.start) / done * (total - done)) if done else None
        remaining = "" if left is None else f", {left // 60}:{left % 60:02} left"
        self.tell(f"{name}: {self.begun:,} of {total:,}{remaining}")


class ByInput:
    """Counts inputs whose parts run separately: windows of a text, or its pairs with each label.

    `owners` has the input of each part. Call it with the indices of the parts that are done.
    """

    def __init__(self, progress: Progress | None, owners: Sequence[int]):
        self.tell, self.owners = counting(progress), owners
        self.left: dict[int, int] = {}
        for owner in owners:
            self.left[owner] = self.left.get(owner, 0) + 1
        self.total = len(self.left)

    def __call__(self, places: Sequence[int]) -> None:
        for place in places:
            owner = self.owners[place]
            self.left[owner] -= 1
            if not self.left[owner]:
                del self.left[owner]
        self.tell(self.total - len(self.left), self.total)
