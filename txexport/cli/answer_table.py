"""Answers to texts and images, for a terminal."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

NUMBERS = ("score", "probability", "start", "end")


def answer_table(records: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    """A row an answer, with what was asked in the first row of each.

    `columns` are keys of a record and then of its answers, which are a list of objects in its last value.
    """
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in NUMBERS else "left", overflow="fold")
    for record in records:
        last = list(record.values())[-1]
        for i, answer in enumerate(_flat(last) if isinstance(last, list) else [{}]):
            row = {**(record if i == 0 else {}), **answer}
            table.add_row(*(Text(_cell(row[column]) if column in row else "") for column in columns))
    return table


def _flat(answers: list) -> list[Mapping[str, Any]]:
    """Answers of every mask of a text one after the other; one that says nothing where there are none."""
    flat = [one for part in answers for one in (part if isinstance(part, list) else [part])]
    return flat or [{}]


def _cell(value: Any) -> str:
    if value == "":
        return '""'
    return f"{value:.4f}" if isinstance(value, float) else str(value)
