"""A report, for a terminal."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from txexport.parity.layers import table as layer_table
from txexport.parity.report import CaseReport, Report


def render(report: Report, cases: bool = True) -> Group:
    """A verdict, then, with `cases`, one line a case with the output that came out worst."""
    verdict = (report.verdict, "bold green" if report.ok else "bold red")
    title = Text.assemble(f"{report.bundle}: ", verdict, f" {report.scope}")
    facts = Text(report.facts)
    layers = [] if report.layers is None else [layer_table.render(report.layers, cases)]
    if not cases:
        return Group(title, facts, *layers)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", no_wrap=True)
    table.add_column("against", no_wrap=True)
    table.add_column("worst output")
    table.add_column("error", justify="right")
    if report.rounded:
        table.add_column("in float32", justify="right", no_wrap=True)
    table.add_column("")
    for case in report.cases:
        *cells, last = _cells(case)
        table.add_row(*cells, *([_rounding(case)] if report.rounded else []), last)
    return Group(title, facts, table, *_behaviours(report), *layers)


def _behaviours(report: Report) -> list[Text]:
    """What the outputs say, a line each."""
    return [Text(f"{output}: {said.summary}") for output, said in report.behaviours().items()]


def _rounding(case: CaseReport) -> Text:
    """What float32 alone is off by, in the output that came out worst."""
    worst = case.worst
    return Text() if worst is None or worst.rounding is None else Text(f"{worst.rounding:.0e}")


def _cells(case: CaseReport) -> list[Text]:
    start = [Text(case.name), Text(case.reference)]
    if case.skipped is not None:
        return [*start, Text(case.skipped), Text(), Text("not tried", "dim")]
    worst = case.worst
    if case.exception is not None or worst is None:
        return [*start, Text(case.summary), Text(), Text("FAILED", "red")]
    verdict = Text("ok", "green") if case.ok else Text("FAILED", "red")
    return [*start, Text(worst.output), Text(f"{worst.error:.0e}"), verdict]
