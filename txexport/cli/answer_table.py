"""A table of answers, for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from txexport.support.printable import line
from txexport.support.terminal import Column, FittedTable

NUMBERS = ("score", "probability", "start", "end")


def answer_table(
    records: Iterable[Mapping[str, Any]], inputs: Sequence[str], answers: Sequence[str]
) -> FittedTable:
    """A row for each answer; the first row of an input shows the input.

    `inputs` are keys of a record, `answers` those of its answers, a list of objects in its last value.
    """
    columns = [*inputs, *answers]
    table = FittedTable(
        *(Column(name, name in NUMBERS, name in inputs and name not in NUMBERS) for name in columns)
    )
    for record in records:
        last = list(record.values())[-1]
        for i, answer in enumerate(_flat(last) if isinstance(last, list) else [{}]):
            row = {**(record if i == 0 else {}), **answer}
            table.add_row(*(Text(line(_cell(row[column])) if column in row else "") for column in columns))
    return table


def _flat(answers: list) -> list[Mapping[str, Any]]:
    """The answers of all masks of a text in one list; an empty answer if there are none."""
    flat = [one for part in answers for one in (part if isinstance(part, list) else [part])]
    return flat or [{}]


def _cell(value: Any) -> str:
    if value == "":
        return '""'
    if isinstance(value, dict):  # a box
        return ", ".join(f"{number:.0f}" for number in value.values())
    return f"{value:.4f}" if isinstance(value, float) else str(value)
