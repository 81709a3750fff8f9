"""Texts from arguments or a file."""

from collections.abc import Sequence
from pathlib import Path

from txexport.errors import InputError
from txexport.runtime.preprocessing.text import Item, as_items


def items_of(texts: str | Path | Sequence[Item]) -> list[Item]:
    """The texts and pairs of a file, or `texts` themselves. Raises InputError for none, and as `read`."""
    items = read(Path(texts)) if isinstance(texts, str | Path) else as_items(texts)
    if not items:
        raise InputError("there are no texts, expected at least one")
    return items


def read(file: Path) -> list[Item]:
    """Read one text a line, or two separated by a tab; skips empty lines. Raises InputError, OSError."""
    try:
        lines = [line for line in file.read_text("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8: byte {error.start}") from None
    if not lines:
        raise InputError(f"{file} has no texts; expected one a line")
    items: list[Item] = []
    for line in lines:
        first, *others = line.split("\t")
        if len(others) > 1:
            raise InputError(
                f"{line[:40]!r} has {len(others) + 1} parts, expected a text, or two and a tab between them"
            )
        items.append((first, others[0]) if others else first)
    return items
