"""A report in Markdown, short enough for a pull request, with commands to repeat failed cases."""

import re
from collections.abc import Iterator, Sequence

from txexport.support.printable import clean
from txexport.verification import counts
from txexport.verification.checks import ALL_CASES, TensorCheck
from txexport.verification.reports.common import hashes, listed, number, run_facts
from txexport.verification.reports.repeat import repeat_command
from txexport.verification.reports.views import (
    behaviours,
    graph_results,
    has_rounding,
    lacking,
    reference_and_runtime,
    worst_outputs,
)
from txexport.verification.result import Report

ICONS = ("✅", "❌", "❓", "⚠️")  # by a report's exit code
MOST = 10  # failed cases written out


def render(reports: Report | Sequence[Report]) -> str:
    """One section a report, in GitHub's Markdown."""
    sections = ["\n".join(_section(report)) for report in listed(reports)]
    return "\n\n".join(sections or ["No bundle was compared."]) + "\n"


def _section(report: Report) -> Iterator[str]:
    yield f"### {ICONS[report.exit_code]} {_code(report.bundle)}: {report.verdict}"
    choices = "; ".join(f"{name}: {total.summary}" for name, total in behaviours(report).items())
    about = ", ".join(map(_code, (report.model_type, report.task, report.scope)))
    yield f"\n{about}.{f' {_code(choices)}' if choices else ''}"
    if report.graphs:
        yield "\n| graph | |\n|---|---|"
    for file, words in graph_results(report).items():
        yield f"| {_cell(file)} | {_cell(words)} |"
    yield from _outputs(report)
    yield from _numbers(report)
    yield from _failed(report)
    if report.layers is not None:
        yield f"\n**By layer**: {_code(report.layers.summary)}"
    yield from _untried(report)
    yield "\n<details><summary>versions, environment, hashes</summary>\n\n| | |\n|---|---|"
    for name, value in run_facts(report).items():
        yield f"| {_cell(name)} | {_cell(value)} |"
    for place, file, digest in hashes(report):
        yield f"| {_cell(f'{place} {file}')} | {_cell(digest)} |"
    yield "\n</details>"


def _outputs(report: Report) -> Iterator[str]:
    """The worst error of each output, with a column for each of several runtimes."""
    several = report.runtimes[1:] != []
    columns = (
        [worst_outputs(report, name) for name in report.runtimes] if several else [worst_outputs(report)]
    )
    outputs = {output: check for column in reversed(columns) for output, check in column.items()}
    if outputs:
        heads = [_cell(name) for name in report.runtimes] if several else ["worst error"]
        heads += ["bound", *(["PyTorch in float32"] * has_rounding(report))]
        yield f"\n| output | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}"
    for output, check in outputs.items():
        errors = [_error(column.get(output)) for column in columns]
        yield f"| {_cell(output)} | {' | '.join(errors)} | {number(check.tolerance)} |" + _rounding(
            report, check
        )


def _numbers(report: Report) -> Iterator[str]:
    """The count of compared numbers, by reference and kind of output."""
    kinds = counts.totals(report.numbers)
    if kinds:
        yield f"\n| numbers compared | {' | '.join(kinds)} |\n|---|{'---:|' * len(kinds)}"
        for name, of in report.numbers.items():
            yield f"| {_cell(name)} | {' | '.join(f'{of.get(kind, 0):,}' for kind in kinds)} |"


def _error(check: TensorCheck | None) -> str:
    return "" if check is None else number(check.error) + ("" if check.ok else " ❌")


def _untried(report: Report) -> Iterator[str]:
    """The runtimes and references that did not run, with the reasons."""
    reasons = {
        (f"on {_code(case.runtime)}" if case.runtime else f"against {_code(case.reference)}"): case.skipped
        for case in report.cases
        if case.name == ALL_CASES and case.skipped is not None
    }
    for missing, reason in reasons.items():
        yield f"\nNot tried {missing}: {_code(reason)}"
    for name, kind, reason in lacking(report):
        yield f"\nNot compared: {kind} of {_code(name)}: {_code(reason)}"


def _rounding(report: Report, check: TensorCheck) -> str:
    if not has_rounding(report):
        return ""
    return f" {'' if check.rounding is None else number(check.rounding)} |"


def _failed(report: Report) -> Iterator[str]:
    failed = report.failed
    if not failed:
        tried = sum(case.skipped is None for case in report.cases)
        yield f"\n{tried} cases passed, {len(report.cases) - tried} skipped."
        return
    yield f"\n**{len(failed)} of {len(report.cases)} cases failed**\n"
    for case in failed[:MOST]:
        reference = _code(reference_and_runtime(report, case))
        yield f"- {_code(case.name)} against {reference}: {_code(case.summary)}"
    if len(failed) > MOST:
        yield f"\nand {len(failed) - MOST} more."
    commands = clean("\n".join(filter(None, (repeat_command(report, case) for case in failed[:MOST]))))
    fence = "`" * max(3, _ticks(commands) + 1)
    if commands:
        yield f"\nTo repeat them:\n\n{fence}sh\n{commands}\n{fence}"


def _ticks(text: str) -> int:
    """The longest run of backticks."""
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _code(text: str) -> str:
    """Text as inline code, without markup, mentions or links."""
    line = " ".join(clean(text).split()) or " "
    fence = "`" * (_ticks(line) + 1)
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def _cell(text: str) -> str:
    """The same in a cell of a table, where a bar after a backslash must be a character reference."""
    line = " ".join(clean(text).split())
    if "\\|" not in line:
        return _code(line).replace("|", "\\|")
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in line)}</code>"
