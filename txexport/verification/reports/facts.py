"""The facts of a report in one line: what was compared, the bound of errors, or the first failure."""

from txexport.verification import counts
from txexport.verification.bounds import LEAST_LOSS, RELATIVE
from txexport.verification.checks import EVERY_WEIGHT, PROCESSORS, STORED
from txexport.verification.reports.views import (
    format_losses,
    format_losses_on_texts,
    lacking,
    reach_text,
    reference_and_runtime,
)
from txexport.verification.result import EXACT_BUT_LOSES, Report

SCALES_ONLY = "scales are the search's, and each integer is one of the two beside its number"
WIDER = 100  # the least ratio of the bound of a narrower type to float32's
NEEDS_TEXTS = "which one the bundle says itself; to prove it, give the texts with --texts"
CALIBRATED_AGAIN = "made again from its texts, every integer is the same"


def facts_line(report: Report) -> str:
    """The count of numbers compared and their bound, with notes; or the first failure."""
    subject = f"{report.model_type}, {report.task}"
    if report.failed:
        return f"{subject}: {_first_failure(report)}"
    checks = [check for case in counts.counted(report.cases) for check in case.checks]
    bound = max((check.tolerance for check in checks), default=0.0)
    within = f"{bound:.0e}" if report.compared else _bounds(report)
    by_kind = counts.totals(report.numbers)
    kinds = f" ({counts.words(by_kind)})" if len(by_kind) > 1 else ""
    numbers = f"{sum(by_kind.values()):,} numbers compared{kinds}, each within {within}"
    numbers = numbers if by_kind else "no numbers compared"
    return "; ".join([f"{subject}: {numbers}", *_notes(report)])


def _bounds(report: Report) -> str:
    """The error bound, in brackets those of formats with a wider one, and formats held to their loss."""
    least: dict[str, float] = {}
    by_loss: dict[str, None] = {}  # in order
    for case in counts.counted(report.cases):
        for check in case.checks if case.runtime is not None else ():
            if case.reference.startswith(STORED) and check.tolerance >= LEAST_LOSS:
                by_loss[case.graphs.split()[-1]] = None
            elif check.tolerance:
                least[case.graphs] = min(least.get(case.graphs, check.tolerance), check.tolerance)
    loss = [f"twice the loss of {', '.join(by_loss)}"] if by_loss else []
    if loss and not least:
        return loss[0]
    common = max(RELATIVE, min(least.values(), default=RELATIVE))
    wider = [f"{graphs}: {one:.0e}" for graphs, one in least.items() if one > WIDER * common]
    brackets = f" ({', '.join(wider)})" if wider else ""
    return ", or ".join([f"{common:.0e}{brackets} or float32's own rounding", *loss])


def unproved_reasons(report: Report) -> list[str]:
    """The reason why the calibrated integers of a dtype are not proved, with the remedy, by dtype."""
    return [_calibration(report, dtype) for dtype in report.unproved]


def _first_failure(report: Report) -> str:
    first = report.failed[0]
    message = f"{first.name} ({reference_and_runtime(report, first)}): {first.summary}"
    text = f"{len(report.failed)} of {len(report.cases)} cases failed, first: {message}"
    if report.verdict == EXACT_BUT_LOSES:
        text = f"{first.graphs} {first.summary}; every number is right"
    blameless = report.layers is not None and report.layers.checks and not report.layers.beyond
    return f"{text}; yet each component by itself is within its budget" if blameless else text


def _notes(report: Report) -> list[str]:
    """The reach of the cases, the processors, the losses, and other notes on the verdict."""
    notes = [reach_text(report)] if report.reach else []
    for case in report.cases:
        if case.name in PROCESSORS and case.skipped is None:
            notes.append(f"{case.name}: {sum(check.elements for check in case.checks):,} compared")
        elif case.name in PROCESSORS:
            notes.append(f"not tried: {case.name}, {case.skipped}")
    notes += [f"no {kind} of {name}: {reason}" for name, kind, reason in lacking(report)]
    notes += [f"{dtype} loses {loss}" for dtype, loss in format_losses(report).items()]
    notes += [f"{dtype} loses {loss} on the texts" for dtype, loss in format_losses_on_texts(report).items()]
    notes += [_calibration(report, dtype) for dtype in report.calibrated]
    notes += report.notes
    beyond = report.layers is not None and report.layers.beyond
    return [*notes, "yet components are beyond their budget alone"] if beyond else notes


def _calibration(report: Report, dtype: str) -> str:
    """The calibration of a dtype, and what was proved of its integers."""
    proof = CALIBRATED_AGAIN
    if dtype in report.unproved:
        compared = {case.name for case in report.cases if case.skipped is None}
        known = SCALES_ONLY if EVERY_WEIGHT in compared else "nothing was held of that"
        proof = f"{known}, {NEEDS_TEXTS}"
    return f"{dtype} is calibrated by {report.calibrated[dtype]}: {proof}"
