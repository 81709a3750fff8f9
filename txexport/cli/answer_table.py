"""Answers to texts and images, for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from txexport.support.printable import line
from txexport.support.terminal import Column, FittedTable

NUMBERS = ("score", "probability", "start", "end")


def answer_table(
    records: Iterable[Mapping[str, Any]], asked: Sequence[str], answered: Sequence[str]
) -> FittedTable:
    """A row an answer, with what was asked in the first row of each.

    `asked` are keys of a record, `answered` those of its answers, a list of objects in its last value.
    """
    columns = [*asked, *answered]
    table = FittedTable(
        *(Column(name, name in NUMBERS, name in asked and name not in NUMBERS) for name in columns)
    )
    for record in records:
        last = list(record.values())[-1]
        for i, answer in enumerate(_flat(last) if isinstance(last, list) else [{}]):
            row = {**(record if i == 0 else {}), **answer}
            table.add_row(*(Text(line(_cell(row[column])) if column in row else "") for column in columns))
    return table


def _flat(answers: list) -> list[Mapping[str, Any]]:
    """Answers of every mask of a text one after the other; one that says nothing where there are none."""
    flat = [one for part in answers for one in (part if isinstance(part, list) else [part])]
    return flat or [{}]


def _cell(value: Any) -> str:
    if value == "":
        return '""'
    return f"{value:.4f}" if isinstance(value, float) else str(value)
