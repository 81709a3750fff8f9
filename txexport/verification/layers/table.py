"""Errors by layer and component, for a terminal."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from txexport.support.printable import line
from txexport.support.terminal import FittedTable, number
from txexport.verification.layers.result import COLUMNS, ComponentCheck, LayerReport, digits

TITLES = {"cross_attention": "cross", "feed_forward": "feed-forward"}


def render(layers: LayerReport, rows: bool = True) -> Group:
    """The first wrong component, and with `rows` a table by layer and component."""
    parts: list[RenderableType] = [Text(line(layers.summary), "bold red" if layers.first else "")]
    if layers.checks and layers.skipped is not None:
        parts.append(Text(line(layers.skipped)))
    if layers.checks and rows:
        parts.append(_table(layers))
    return Group(*parts)


def _table(layers: LayerReport) -> FittedTable:
    columns = [name for name in COLUMNS if any(check.column == name for check in layers.checks)]
    titles = [TITLES.get(name, name) for name in columns]
    table = FittedTable("layer or component", *map(number, titles), number("in the whole"))
    for label, checks in layers.rows().items():
        drifts = [check.accumulated for check in checks if check.accumulated is not None]
        cells = [_cell([check for check in checks if check.column == name]) for name in columns]
        table.add_row(Text(line(label)), *cells, digits(drifts[-1]) if drifts else "")
    return table


def _cell(checks: Sequence[ComponentCheck]) -> Text:
    """The worst of some checks."""
    worst = max(checks, key=lambda check: check.error, default=None)
    if worst is None:
        return Text()
    return Text(digits(worst.error), "" if worst.ok else "bold red")
