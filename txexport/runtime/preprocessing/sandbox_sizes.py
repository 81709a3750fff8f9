"""Estimated sizes of a template's values, for steps that could make them much larger than their parts."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from jinja2.exceptions import SecurityError
from jinja2.utils import Namespace

SIZE = 2**23  # characters and items of one value, items within items counted each time that they are there
SEARCH = 2**28  # comparisons of a search from the end, which may take as many as both lengths multiplied
ITEM = 32  # the size of a list's item beside its characters, for its memory
SHORT = 2**17  # of a value for a filter whose time grows faster than its size
DEPTH, BITS, RANGE, WIDTH = 100, 64, 10_000, 1000  # of lists within lists, a number, a range, a format

PADDING = {"center", "ljust", "rjust", "zfill"}  # methods that pad text to a given width
BACKWARD = {"rfind", "rindex", "rpartition", "rsplit"}
WIDE = re.compile(r"\d{4}")  # a width or precision of 1000 and more, as {:>1000} has it
# A conversion of %: key, flags, width, precision, letter; of a key with brackets in it the letter is (.
CONVERSION = re.compile(r"%(?:\([^()]*\))?[-+ #0]*(\*|\d*)(?:\.(\*|\d*))?[hlL]?(.)", re.DOTALL)


def size(value: Any, depth: int = 0) -> int:
    """The characters and items of a value, as many as writing it out takes; 1 for other types.

    Raises SecurityError for lists in lists that are too deep, and for numbers that are too long. It stops
    counting soon after SIZE.
    """
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, int) and value.bit_length() > BITS:
        raise SecurityError(f"a number of more than {BITS} bits is not supported")
    if isinstance(value, Namespace):
        value = vars_of(value)
    if isinstance(value, Mapping):
        items: Iterable = (part for pair in list(value.items()) for part in pair)
    elif isinstance(value, list | tuple | set | frozenset):
        items = value
    else:
        return 1
    if depth == DEPTH:
        raise SecurityError(f"lists within lists are deeper than {DEPTH}")
    total = ITEM
    for item in items:
        total += ITEM + size(item, depth + 1)
        if total > SIZE:
            break
    return total


def vars_of(namespace: Namespace) -> dict[str, Any]:
    """The values of a template's namespace."""
    return object.__getattribute__(namespace, "_Namespace__attrs")


def slow_size(name: str, value: Any, parameters: Iterable) -> int:
    """The most that a slow filter returns for `value`. Raises SecurityError for a long one."""
    length = size(value)
    if length > SHORT:
        raise SecurityError(f"{name} of {length:,} characters and items, expected at most {SHORT:,}")
    return length * max((len(one) for one in parameters if isinstance(one, str)), default=1)


def format_size(text: str) -> int:
    """The most characters of the method format's result for `text`, before its fields have values."""
    return len(text) + max(text.count("{"), text.count("}")) * WIDTH


def percent_size(text: str, values: Any) -> int:
    """The most characters of a % format's result for `text`."""
    return len(text) + text.count("%") * (WIDTH + size(values))


def check_widths(text: str) -> None:
    """Raise SecurityError for a % format that is wider than WIDTH, or whose width is one of its values."""
    for width, precision, letter in CONVERSION.findall(text):
        if "*" in (width, precision) or letter == "(" or max(len(width), len(precision)) > 3:
            raise SecurityError(f"the format {text[:40]!r} is too wide")


def method_size(name: str, text: str, *args: Any) -> int:
    """The most that a method or filter returns for `text`; 0 if at most a few times the text.

    Raises SecurityError for a search from the end that would take too long.
    """
    if name in BACKWARD and args and isinstance(args[0], str) and len(text) * len(args[0]) > SEARCH:
        raise SecurityError(f"{name} looks for {len(args[0]):,} characters among {len(text):,}")
    numbers = [value for value in args if isinstance(value, int)]
    if name in PADDING and numbers:
        return max(numbers)
    if name == "replace" and len(args) > 1:
        old, new = str(args[0]), str(args[1])
        return len(text) + text.count(old) * len(new)
    if name in ("split", "rsplit", "splitlines"):
        parts = text.count(args[0]) if args and isinstance(args[0], str) else len(text) // 2
        return len(text) + parts * ITEM
    if name == "indent":
        width = next(iter(args), 4)
        times = len(text.splitlines()) + 1
        return len(text) + times * (width if isinstance(width, int) else len(str(width)))
    return 0


def bounded_range(*bounds: int) -> range:
    """The function range. Raises SecurityError for more than RANGE numbers."""
    numbers = range(*bounds)
    size(bounds)
    if len(numbers) > RANGE:
        raise SecurityError(f"range makes {len(numbers)} numbers, expected at most {RANGE}")
    return numbers
