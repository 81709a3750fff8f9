"""Suggestions of names, for messages about one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6, otherwise: str = "") -> str:
    """The end of a message: a question with up to three `known` names like `name`, or else `otherwise`."""
    close = get_close_matches(name, list(known), n=3, cutoff=cutoff) if isinstance(name, str) else []
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; {otherwise}" if otherwise else ""
