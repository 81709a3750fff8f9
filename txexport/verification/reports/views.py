"""Views of a report that its forms share: by graph, by runtime, by output."""

import re

from txexport.verification import counts
from txexport.verification.agreement import Behaviour
from txexport.verification.checks import (
    CHECKPOINT,
    DIRECTION,
    FORMAT_LOSS,
    FORMAT_LOSS_ON_TEXTS,
    PROBABILITY,
    CaseReport,
    TensorCheck,
    graphs_label,
)
from txexport.verification.result import EXACT_BUT_LOSES, UNPROVED, Report


def reference_of(case: CaseReport) -> str:
    """The reference of a case, with its graphs unless they are native float32."""
    label = graphs_label(case.graphs)
    return f"{case.reference} ({label})" if label else case.reference


def reference_and_runtime(report: Report, case: CaseReport) -> str:
    """As `reference_of`, with the runtime if the report has several."""
    runtime = f" on {case.runtime}" if case.runtime and report.runtimes[1:] else ""
    return f"{reference_of(case)}{runtime}"


def rows_by_runtime(report: Report) -> dict[tuple[str, str], dict[str | None, CaseReport]]:
    """A row for each case and reference, with the reports by runtime."""
    rows: dict[tuple[str, str], dict[str | None, CaseReport]] = {}
    for case in report.cases:
        rows.setdefault((case.name, reference_of(case)), {})[case.runtime] = case
    return rows


def graph_results(report: Report) -> dict[str, str]:
    """The result of each graph of the bundle in words, by its file."""
    return {file: _graph_result(report, file, graphs) for file, graphs in report.graphs.items()}


def _graph_result(report: Report, file: str, graphs: str) -> str:
    cases = [case for case in report.cases if case.graphs == graphs and case.tries(file)]
    failed = [case for case in cases if not case.of_graph(file).ok]
    if not cases:
        return "not tried"
    if any(not case.is_loss for case in failed):
        return f"{len(failed)} of {len(cases)} cases failed"
    if graphs.split()[-1] in report.unproved:
        return f"{UNPROVED}, {len(cases)} cases"
    if failed:
        return f"{EXACT_BUT_LOSES}, {len(cases)} cases"
    edited = file in (report.edited or "").split()
    return f"{'no difference' if edited else 'equal'}, {len(cases)} cases"


def lacking(report: Report) -> list[tuple[str, str, str]]:
    """The kinds of outputs that a reference lacks: reference, kind, and reason."""
    cases = [case for case in report.cases if case.name in counts.KINDS]
    return list(dict.fromkeys((case.reference, case.name, case.skipped or "") for case in cases))


def format_losses(report: Report) -> dict[str, str]:
    """The largest loss of each number format on seeded inputs, by dtype, in words."""
    worst: dict[str, TensorCheck] = {}
    for case in report.cases:
        for check in case.checks if case.name == FORMAT_LOSS else ():
            dtype, measure = case.graphs.split()[-1], _last_word(check)
            has_budget = measure in (DIRECTION, PROBABILITY)
            if has_budget and (dtype not in worst or check.error > worst[dtype].error):
                worst[dtype] = check
    return {dtype: f"up to {check.error:.2%} of {_last_word(check)}" for dtype, check in worst.items()}


def _last_word(check: TensorCheck) -> str:
    return check.output.rpartition(" ")[2]


def format_losses_on_texts(report: Report) -> dict[str, str]:
    """The losses of each number format on the user's texts, by dtype, in words."""
    return {
        case.graphs.split()[-1]: ", ".join(f"{check.error:.2%} of {check.output}" for check in case.checks)
        for case in report.cases
        if case.name == FORMAT_LOSS_ON_TEXTS and case.checks
    }


def reach_text(report: Report) -> str:
    """The reach of the cases in words."""
    return "up to " + ", ".join(
        f"{number:,} {name}" if limit is None else f"{number:,} of {limit:,} {name}"
        for name, (number, limit) in report.reach.items()
    )


def has_rounding(report: Report) -> bool:
    """True if the rounding of float32 was measured beside any error."""
    return any(check.rounding is not None for case in report.cases for check in case.checks)


def worst_outputs(report: Report, runtime: str | None = None) -> dict[str, TensorCheck]:
    """The worst check of each output of one runtime, or of all; all layers together as `present.*.key`."""
    worst: dict[str, TensorCheck] = {}
    for case in report.cases:
        if case.reference == CHECKPOINT or runtime not in (None, case.runtime):
            continue
        for check in case.checks:
            output = re.sub(r"\.\d+\.", ".*.", check.output)
            if output not in worst or check.error > worst[output].error:
                worst[output] = check
    return worst


def behaviours(report: Report) -> dict[str, Behaviour]:
    """The choices, ranks and cosines of each output over all cases and references."""
    result: dict[str, Behaviour] = {}
    for check in (check for case in report.cases for check in case.checks):
        if check.behaviour is not None:
            before = result.get(check.output)
            result[check.output] = check.behaviour if before is None else before.merged(check.behaviour)
    return result
