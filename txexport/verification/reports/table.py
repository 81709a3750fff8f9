"""A report for a terminal."""

from rich.console import Group
from rich.text import Text

from txexport.support.printable import line
from txexport.support.terminal import Column, FittedTable, Notes, number
from txexport.verification.checks import CaseReport
from txexport.verification.layers import table as layer_table
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import (
    behaviours,
    graph_results,
    has_rounding,
    reference_of,
    rows_by_runtime,
)
from txexport.verification.result import Report

OK, FAILED, SKIPPED = Text("ok", "green"), Text("FAILED", "red"), Text("not tried", "dim")
AGAINST = Column("against", apart=True)


def render(report: Report, cases: bool = True) -> Group:
    """The verdict, and with `cases` a table of one line a case with its worst output, or with the worst error
    on each of several runtimes. Texts too long for a cell are notes below the table."""
    verdict = (report.verdict, "bold green" if report.ok else "bold red")
    title = Text.assemble(line(f"{report.bundle}: "), verdict, line(f" {report.scope}"))
    facts = Text(line(facts_line(report)))
    layers = [] if report.layers is None else [layer_table.render(report.layers, cases)]
    if not cases:
        return Group(title, facts, *_failures(report), *layers)
    notes = Notes()
    if len(report.runtimes) > 1:
        table = _by_runtime(report, notes)
        return Group(title, facts, table, *notes.lines(), *_graphs(report), *layers)
    table = _by_output(report, notes)
    return Group(title, facts, table, *notes.lines(), *_graphs(report), *_behaviours(report), *layers)


def _by_output(report: Report, notes: Notes) -> FittedTable:
    """A table with a row for each case and its worst output."""
    rounded = [number("in float32")] * has_rounding(report)
    table = FittedTable("case", AGAINST, "worst output", number("error"), *rounded, "")
    for case in report.cases:
        *cells, last = _cells(case, notes)
        rounding = [_rounding(case)] * has_rounding(report)
        table.add_row(line(case.name), line(reference_of(case)), *cells, *rounding, last)
    return table


def _failures(report: Report) -> list[Text]:
    """The first failed case and the number of others."""
    others = f" (and {len(report.failed) - 1} more)" if len(report.failed) > 1 else ""
    return [Text(line(f"{case.name}: {case.summary}{others}")) for case in report.failed[:1]]


def _graphs(report: Report) -> list[Text]:
    """The result of each graph, one line each."""
    return [Text(line(f"{file}: {words}")) for file, words in graph_results(report).items()]


def _behaviours(report: Report) -> list[Text]:
    """The choices, ranks and cosines of each output, one line each."""
    return [Text(line(f"{output}: {total.summary}")) for output, total in behaviours(report).items()]


def _rounding(case: CaseReport) -> str:
    """The rounding of float32 in the worst output."""
    worst = case.worst
    return "" if worst is None or worst.rounding is None else f"{worst.rounding:.0e}"


def _cells(case: CaseReport, notes: Notes) -> list[Text]:
    """The worst output, its error, and the outcome."""
    worst = case.worst
    if case.skipped is not None:
        return [Text(notes.mark(line(case.summary))), Text(), SKIPPED]
    if case.exception is not None or worst is None:
        return [Text(notes.mark(line(case.summary))), Text(), FAILED]
    return [Text(line(worst.output)), Text(f"{worst.error:.0e}"), OK if case.ok else FAILED]


def _by_runtime(report: Report, notes: Notes) -> FittedTable:
    """A table with a row for each case and a column for each runtime."""
    runtimes = [number(line(runtime)) for runtime in report.runtimes]
    table = FittedTable("case", AGAINST, *runtimes, "")
    for (name, judged), cases in rows_by_runtime(report).items():
        errors = [_error(cases.get(runtime), notes) for runtime in report.runtimes]
        tried = [case for case in cases.values() if case.skipped is None]
        verdict = (OK if all(case.ok for case in tried) else FAILED) if tried else SKIPPED
        table.add_row(line(name), line(judged), *errors, verdict)
    return table


def _error(case: CaseReport | None, notes: Notes) -> Text:
    """The worst error of a case on one runtime."""
    if case is None:
        return Text()
    where = f"{case.runtime}: " if case.runtime else ""
    if case.skipped is not None:
        return Text(f"{SKIPPED} {notes.mark(line(where + case.summary))}", "dim")
    if case.exception is not None or case.worst is None:
        return Text(f"{FAILED} {notes.mark(line(where + case.summary))}", "red")
    return Text(f"{case.worst.error:.0e}", "" if case.ok else "red")
