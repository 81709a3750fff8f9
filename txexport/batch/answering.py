"""Answers to many inputs, some of which may fail."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from txexport.errors import InputError, LibraryError

REFUSALS = (InputError, LibraryError)  # errors that a single input may cause


def answered(ask: Callable[[Sequence, int], Sequence], values: Sequence, first: int = 0) -> Iterator[Any]:
    """The answer to each of `values`, or the error that it causes, found by bisection.

    `ask` takes values and the index of the first one; the index of values[0] is `first`.
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
