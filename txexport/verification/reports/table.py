"""A report, for a terminal."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from txexport.printable import line
from txexport.verification.checks import CaseReport
from txexport.verification.layers import table as layer_table
from txexport.verification.result import Report

OK, FAILED, SKIPPED = Text("ok", "green"), Text("FAILED", "red"), Text("not tried", "dim")


def render(report: Report, cases: bool = True) -> Group:
    """A verdict, then, with `cases`, one line a case: with the output that came out worst, or, where there
    are several runtimes, with the worst error in each."""
    verdict = (report.verdict, "bold green" if report.ok else "bold red")
    title = Text.assemble(line(f"{report.bundle}: "), verdict, line(f" {report.scope}"))
    facts = Text(line(report.facts))
    layers = [] if report.layers is None else [layer_table.render(report.layers, cases)]
    if not cases:
        return Group(title, facts, *_failures(report), *layers)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    if len(report.runtimes) > 1:
        return Group(title, facts, _fill(table, report), *_graphs(report), *_notes(report))
    table.add_column("case", no_wrap=True)
    table.add_column("against", no_wrap=True)
    table.add_column("worst output")
    table.add_column("error", justify="right")
    if report.rounded:
        table.add_column("in float32", justify="right", no_wrap=True)
    table.add_column("")
    for case in report.cases:
        *cells, last = _cells(case, report.judged(case))
        table.add_row(*cells, *([_rounding(case)] if report.rounded else []), last)
    return Group(title, facts, table, *_graphs(report), *_behaviours(report), *layers)


def _failures(report: Report) -> list[Text]:
    """The first case that failed, and how many others did, where no table says it."""
    others = f" (and {len(report.failed) - 1} more)" if len(report.failed) > 1 else ""
    return [Text(line(f"{case.name}: {case.summary}{others}")) for case in report.failed[:1]]


def _graphs(report: Report) -> list[Text]:
    """What came out for each graph, a line each."""
    return [Text(line(f"{file}: {words}")) for file, words in report.of_graphs().items()]


def _behaviours(report: Report) -> list[Text]:
    """What the outputs say, a line each."""
    return [Text(line(f"{output}: {total.summary}")) for output, total in report.behaviours().items()]


def _rounding(case: CaseReport) -> Text:
    """What float32 alone is off by, in the output that came out worst."""
    worst = case.worst
    return Text() if worst is None or worst.rounding is None else Text(f"{worst.rounding:.0e}")


def _cells(case: CaseReport, judged: str) -> list[Text]:
    start = [Text(line(case.name)), Text(line(judged))]
    if case.skipped is not None:
        return [*start, Text(line(case.skipped)), Text(), SKIPPED]
    worst = case.worst
    if case.exception is not None or worst is None:
        return [*start, Text(line(case.summary)), Text(), FAILED]
    return [*start, Text(line(worst.output)), Text(f"{worst.error:.0e}"), OK if case.ok else FAILED]


def _fill(table: Table, report: Report) -> Table:
    """A column a runtime, and a last one for the line."""
    table.add_column("case")
    table.add_column("against", no_wrap=True)
    for runtime in report.runtimes:
        title = Text(line(runtime).replace("-", "-\n"))
        table.add_column(title, justify="right", overflow="fold", min_width=9)
    table.add_column("")
    for (name, reference), cases in report.rows().items():
        errors = [_error(cases.get(runtime)) for runtime in report.runtimes]
        tried = [case for case in cases.values() if case.skipped is None]
        verdict = (OK if all(case.ok for case in tried) else FAILED) if tried else SKIPPED
        table.add_row(Text(line(name)), Text(line(reference)), *errors, verdict)
    return table


def _error(case: CaseReport | None) -> Text:
    """The worst error of a case in one runtime, in its place among the others."""
    if case is None:
        return Text()
    if case.skipped is not None:
        return SKIPPED
    if case.exception is not None or case.worst is None:
        return FAILED
    return Text(f"{case.worst.error:.0e}", "" if case.ok else "red")


def _notes(report: Report) -> list[Text]:
    """What the errors leave out: why something was not tried, or what ended it."""
    notes = {
        (case.runtime, case.summary): None
        for case in report.cases
        if case.skipped is not None or case.exception is not None
    }
    return [Text(line(f"{runtime}: {summary}" if runtime else summary)) for runtime, summary in notes]
