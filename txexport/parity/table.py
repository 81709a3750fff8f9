"""A report, for a terminal."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from txexport.parity.report import CaseReport, Report


def render(report: Report, cases: bool = True) -> Group:
    """A verdict, then, with `cases`, one line a case with the output that came out worst."""
    checks = [check for case in report.cases for check in case.checks]
    against = " and ".join(name for name in report.references if name != "checkpoint") or "nothing"
    verdict = ("equal", "bold green") if report.ok else ("NOT EQUAL", "bold red")
    title = Text.assemble(f"{report.bundle}: ", verdict, f" to {against} on {report.runtime}")
    facts = (
        f"{report.model_type}, {report.task}: {sum(check.elements for check in checks):,} numbers compared"
    )
    if report.failed:
        facts = (
            f"{len(report.failed)} of {len(report.cases)} cases failed, first: {_summary(report.failed[0])}"
        )
    elif checks:
        facts += f", each within {max(check.tolerance for check in checks):.0e}"
    if not cases:
        return Group(title, Text(facts))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", no_wrap=True)
    table.add_column("against")
    table.add_column("worst output")
    table.add_column("error", justify="right")
    table.add_column("")
    for case in report.cases:
        table.add_row(*_cells(case))
    return Group(title, Text(facts), table)


def _summary(case: CaseReport) -> str:
    worst = case.worst
    if case.exception is not None or worst is None:
        return f"{case.name} ({case.reference}): {case.exception or 'nothing was compared'}"
    return f"{case.name} ({case.reference}): {worst.output} is off by {worst.error:.0e}"


def _cells(case: CaseReport) -> list[Text]:
    start = [Text(case.name), Text(case.reference)]
    if case.skipped is not None:
        return [*start, Text(case.skipped), Text(), Text("not tried", "dim")]
    worst = case.worst
    if case.exception is not None or worst is None:
        return [*start, Text(case.exception or "nothing was compared"), Text(), Text("FAILED", "red")]
    verdict = Text("ok", "green") if case.ok else Text("FAILED", "red")
    return [*start, Text(worst.output), Text(f"{worst.error:.0e}"), verdict]
