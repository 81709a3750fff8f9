"""A report, for a terminal."""

from rich.console import Group
from rich.text import Text

from txexport.support.printable import line
from txexport.support.terminal import Column, FittedTable, Notes, number
from txexport.verification.checks import CaseReport
from txexport.verification.layers import table as layer_table
from txexport.verification.result import Report

OK, FAILED, SKIPPED = Text("ok", "green"), Text("FAILED", "red"), Text("not tried", "dim")
AGAINST = Column("against", apart=True)


def render(report: Report, cases: bool = True) -> Group:
    """A verdict, then, with `cases`, one line a case: with the output that came out worst, or, where there
    are several runtimes, with the worst error in each. What a case says in words stands below the table."""
    verdict = (report.verdict, "bold green" if report.ok else "bold red")
    title = Text.assemble(line(f"{report.bundle}: "), verdict, line(f" {report.scope}"))
    facts = Text(line(report.facts))
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
    """A line a case, with the output that came out worst."""
    rounded = [number("in float32")] * report.rounded
    table = FittedTable("case", AGAINST, "worst output", number("error"), *rounded, "")
    for case in report.cases:
        *cells, last = _cells(case, notes)
        rounding = [_rounding(case)] * report.rounded
        table.add_row(line(case.name), line(report.judged(case)), *cells, *rounding, last)
    return table


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


def _rounding(case: CaseReport) -> str:
    """What float32 alone is off by, in the output that came out worst."""
    worst = case.worst
    return "" if worst is None or worst.rounding is None else f"{worst.rounding:.0e}"


def _cells(case: CaseReport, notes: Notes) -> list[Text]:
    """The worst output, its error, and what became of the case."""
    worst = case.worst
    if case.skipped is not None:
        return [Text(notes.mark(line(case.summary))), Text(), SKIPPED]
    if case.exception is not None or worst is None:
        return [Text(notes.mark(line(case.summary))), Text(), FAILED]
    return [Text(line(worst.output)), Text(f"{worst.error:.0e}"), OK if case.ok else FAILED]


def _by_runtime(report: Report, notes: Notes) -> FittedTable:
    """A line a case, and a column a runtime."""
    runtimes = [number(line(runtime)) for runtime in report.runtimes]
    table = FittedTable("case", AGAINST, *runtimes, "")
    for (name, judged), cases in report.rows().items():
        errors = [_error(cases.get(runtime), notes) for runtime in report.runtimes]
        tried = [case for case in cases.values() if case.skipped is None]
        verdict = (OK if all(case.ok for case in tried) else FAILED) if tried else SKIPPED
        table.add_row(line(name), line(judged), *errors, verdict)
    return table


def _error(case: CaseReport | None, notes: Notes) -> Text:
    """The worst error of a case in one runtime, in its place among the others."""
    if case is None:
        return Text()
    where = f"{case.runtime}: " if case.runtime else ""
    if case.skipped is not None:
        return Text(f"{SKIPPED} {notes.mark(line(where + case.summary))}", "dim")
    if case.exception is not None or case.worst is None:
        return Text(f"{FAILED} {notes.mark(line(where + case.summary))}", "red")
    return Text(f"{case.worst.error:.0e}", "" if case.ok else "red")
