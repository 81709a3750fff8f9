"""Suggestions of names, for messages about one that is not known."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

LONGEST = 100  # characters of a name; comparing takes the square of them
MOST = 2000  # names of a folder that are compared


def did_you_mean(name: object, known: Iterable[str], cutoff: float = 0.6, otherwise: str = "") -> str:
    """The end of a message: a question with up to three `known` names like `name`, or else `otherwise`."""
    short = isinstance(name, str) and len(name) <= LONGEST
    close = get_close_matches(str(name), list(known), n=3, cutoff=cutoff) if short else []
    return _question(close, otherwise)


def near_paths(path: Path, otherwise: str = "") -> str:
    """As `did_you_mean`, of a missing path: with those beside it that have a similar name."""
    try:
        known = {one.name: str(one) for one in islice(path.parent.iterdir(), MOST)}
    except OSError:
        known = {}
    close = get_close_matches(path.name, known, n=3, cutoff=0.7)
    return _question([known[name] for name in close], otherwise)


def _question(close: list[str], otherwise: str) -> str:
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; {otherwise}" if otherwise else ""
