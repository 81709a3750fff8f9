"""Many inputs together, of which some cannot be answered."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from txexport.errors import InputError, LibraryError

REFUSALS = (InputError, LibraryError)  # what one input can be the cause of


def answered(ask: Callable[[Sequence, int], Sequence], values: Sequence, first: int = 0) -> Iterator[Any]:
    """The answer to each of `values`, or the error that it causes, which asking for halves finds.

    `ask` takes values and the place of the first of them; that of values[0] is `first`.
    """
    if not values:
        return
    try:
        answers: Sequence | None = ask(values, first)
    except REFUSALS as error:
        answers = [error] if len(values) == 1 else None
    if answers is not None:
        yield from answers
        return
    half = len(values) // 2
    yield from answered(ask, values[:half], first)
    yield from answered(ask, values[half:], first + half)
