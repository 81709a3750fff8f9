"""A report, for a terminal."""

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from txexport.parity.report import CaseReport, Report


def render(report: Report, cases: bool = True) -> Group:
    """A verdict, then, with `cases`, one line a case with the output that came out worst."""
    verdict = ("equal to", "bold green") if report.ok else ("NOT EQUAL to", "bold red")
    checks = [check for case in report.cases for check in case.checks]
    outputs, numbers = len({check.output for check in checks}), sum(check.elements for check in checks)
    title = Text.assemble(f"{report.bundle}: ", verdict, f" {report.reference} on {report.runtime}")
    allowed = f", each within {checks[0].tolerance:.0e}" if checks else ""
    facts = f"{report.model_type}, {report.task}: {outputs} outputs, {numbers:,} numbers{allowed}"
    if not cases:
        return Group(title, facts)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("case", no_wrap=True)
    table.add_column("worst output")
    table.add_column("error", justify="right")
    table.add_column("")
    for case in report.cases:
        table.add_row(*_cells(case))
    return Group(title, facts, table)


def _cells(case: CaseReport) -> list[str]:
    if case.skipped is not None:
        return [case.name, case.skipped, "", "[dim]not tried[/]"]
    worst = case.worst
    if case.exception is not None or worst is None:
        return [case.name, case.exception or "nothing was compared", "", "[red]FAILED[/]"]
    return [case.name, worst.output, f"{worst.error:.0e}", "[green]ok[/]" if case.ok else "[red]FAILED[/]"]
