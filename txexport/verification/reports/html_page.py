"""A report as one HTML page without scripts or other files, in light and dark, for desktop and phone."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from txexport.support.markup import page, plain, table, text
from txexport.verification import counts
from txexport.verification.checks import CHECKPOINT, CaseReport, TensorCheck
from txexport.verification.reports import layer_plot, plot
from txexport.verification.reports.common import hashes, joint_verdict, listed, number, outcome, run_facts
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.repeat import repeat_command
from txexport.verification.reports.views import (
    behaviours,
    graph_results,
    has_rounding,
    reference_and_runtime,
    rows_by_runtime,
)
from txexport.verification.result import Report

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")


def render(reports: Report | Sequence[Report]) -> str:
    """The page; several reports begin with a table of them."""
    every = listed(reports)
    ok = bool(every) and all(report.ok for report in every)
    verdict = joint_verdict(every)
    about = every[0].bundle if len(every) == 1 else f"{len(every)} bundles"
    body = [_overview(every)] if len(every) > 1 else []
    body += ["\n".join(_section(place, report, len(every) > 1)) for place, report in enumerate(every, 1)]
    heading = f'<h1 class="{"pass" if ok else "fail"}">{text(about)}: <span>{verdict}</span></h1>'
    return page(f"{about}: {verdict}", "\n".join([plot.SHAPES, "<main>", heading, *body, "</main>"]), STYLE)


def _overview(reports: Sequence[Report]) -> str:
    rows = [
        [
            f'<a href="#report-{place}">{text(report.bundle)}</a>',
            text(report.model_type),
            _badge(report.verdict, report.ok),
        ]
        for place, report in enumerate(reports, 1)
    ]
    return table(["bundle", "model", ""], rows)


def _section(place: int, report: Report, named: bool) -> Iterator[str]:
    """The section of one report; `named` repeats its name where the page has several."""
    yield f'<section id="report-{place}">'
    if named:
        yield f"<h2>{text(report.bundle)} {_badge(report.verdict, report.ok)}</h2>"
    yield f"<p>{text(report.verdict)} {text(report.scope)}. {text(facts_line(report))}.</p>"
    if report.failed:
        commands = dict.fromkeys(filter(None, (repeat_command(report, case) for case in report.failed)))
        lines = "".join(f"<code>{_command(command)}\n</code>" for command in commands)
        yield f"<h3>To repeat what failed</h3><pre>{lines}</pre>" if lines else ""
    if report.graphs:
        rows = [[f"<code>{text(file)}</code>", text(words)] for file, words in graph_results(report).items()]
        yield f"<h3>Graphs</h3>{table([], rows)}"
    if report.runtimes[1:]:
        yield f"<h3>Worst errors by runtime</h3>{_grid(report)}"
    for runtime in report.runtimes:
        yield f"<h3>Errors by case{f' on {text(runtime)}' if report.runtimes[1:] else ''}</h3>"
        yield plot.render(report, runtime)
    if behaviours(report):
        rows = [[text(name), text(total.summary)] for name, total in behaviours(report).items()]
        yield f"<h3>Choices, ranks and directions</h3>{table([], rows)}"
    if report.layers is not None:
        yield "<h3>Errors by layer</h3>"
        yield layer_plot.render(report.layers)
    if kinds := counts.totals(report.numbers):
        rows = [
            [text(name), *(f"{of.get(kind, 0):,}" for kind in kinds)] for name, of in report.numbers.items()
        ]
        yield f"<h3>Numbers compared</h3>{table(['against', *kinds], rows)}"
    details = [
        _case(case, reference_and_runtime(report, case), has_rounding(report)) for case in report.cases
    ]
    yield f"<h3>Cases and tensors</h3>{''.join(details)}"
    rows = [[text(name), text(value)] for name, value in run_facts(report).items()]
    yield f"<h3>Versions and environment</h3>{table([], rows)}"
    if hashes(report):
        rows = [
            [where, text(file), f"<code>{_digest(digest)}</code>"] for where, file, digest in hashes(report)
        ]
        yield f"<h3>SHA-256 of the files</h3>{table(['', 'file', 'hash'], rows)}"
    yield "</section>"


def _grid(report: Report) -> str:
    """A table with a row for each case and a column for each runtime."""
    rows = [
        [text(name), text(reference), *(_error(cases.get(runtime)) for runtime in report.runtimes)]
        for (name, reference), cases in rows_by_runtime(report).items()
        if reference != CHECKPOINT
    ]
    return table(["case", "against", *map(text, report.runtimes)], rows)


def _error(case: CaseReport | None) -> str:
    if case is None or case.skipped is not None or case.worst is None:
        return "" if case is None else _badge(outcome(case), case.ok)
    return number(case.worst.error) if case.ok else f'<b class="fail">{number(case.worst.error)}</b>'


def _case(case: CaseReport, reference: str, rounded: bool) -> str:
    word, worst = outcome(case), case.worst
    error = f'<span class="error">{number(worst.error)}</span>' if worst is not None else ""
    title = f"{error}{_badge(word, case.ok)} {text(case.name)} <i>{text(reference)}</i>"
    start = f"<details{' open' if word == 'FAILED' else ''}>"
    if worst is None:
        inside = f"<p>{text(case.skipped or case.exception or case.summary)}</p>"
    else:
        wrong, right = [[check for check in case.checks if check.ok == ok] for ok in (False, True)]
        several = len({check.graph for check in case.checks}) > 1
        inside = _checks(wrong or right, rounded, several)
        if wrong and right:
            more = _checks(right, rounded, several)
            inside += f"<details><summary>{len(right)} outputs within their bounds</summary>{more}</details>"
    return f"{start}<summary>{title}</summary>{inside}</details>\n"


def _checks(checks: Sequence[TensorCheck], rounded: bool, several: bool) -> str:
    heads = ["output", "numbers", "error", "bound", *(["PyTorch in float32"] if rounded else [])]
    return table(heads, (_check(check, rounded, several) for check in checks), "checks")


def _check(check: TensorCheck, rounded: bool, several: bool) -> list[str]:
    """A row of a check; it names the graph if the case ran `several`."""
    error = number(check.error) if check.ok else f'<b class="fail">{number(check.error)}</b>'
    choices = "" if check.behaviour is None else f"<small>{text(check.behaviour.summary)}</small>"
    graph = f"<small>{text(check.graph)}</small>" if several and check.graph is not None else ""
    cells = [text(check.output) + graph + choices, f"{check.elements:,}", error, number(check.tolerance)]
    if rounded:
        cells.append("" if check.rounding is None else number(check.rounding))
    return cells


def _command(command: str) -> str:
    """A command whose options are not wrapped; browsers break lines after hyphens."""
    return re.sub(r"(?<= )--[a-z-]+", r"<span>\g<0></span>", text(command))


def _digest(digest: str) -> str:
    """A hash that may be wrapped after every eight characters."""
    return "<wbr>".join(plain(digest[at : at + 8]) for at in range(0, len(digest), 8))


def _badge(word: str, ok: bool) -> str:
    kind = "none" if word == "skipped" else "pass" if ok else "fail"
    return f'<span class="badge {kind}">{text(word)}</span>'
