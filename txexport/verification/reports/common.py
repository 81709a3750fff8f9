"""Parts that all formats of a report share."""

import math
from collections.abc import Sequence

from txexport.verification.checks import CaseReport
from txexport.verification.reports.views import reach_text
from txexport.verification.result import Report


def listed(reports: Report | Sequence[Report]) -> list[Report]:
    """One report or several, as a list."""
    return [reports] if isinstance(reports, Report) else list(reports)


def joint_verdict(reports: Sequence[Report]) -> str:
    """The verdict on several reports: the common one, or the worst."""
    verdicts = sorted(reports, key=lambda report: (1, 2, 3, 0).index(report.exit_code))
    if not verdicts:
        return "nothing was compared"
    distinct = {report.verdict for report in reports}
    return verdicts[0].verdict if len(distinct) == 1 or not all(r.ok for r in reports) else "no difference"


def number(error: float) -> str:
    """An error or a bound with two digits."""
    if not math.isfinite(error):
        return "not finite"
    return f"{error:.1e}" if error else "0"


def outcome(case: CaseReport) -> str:
    """The outcome of a case: ok, FAILED or skipped."""
    return "skipped" if case.skipped is not None else "ok" if case.ok else "FAILED"


def run_facts(report: Report) -> dict[str, str]:
    """The runtime, the reach, the environment, versions and date, by name."""
    created = {"created": report.created} if report.created else {}
    inputs = {"inputs": reach_text(report)} if report.reach else {}
    return {"runtime": report.runtime, **inputs, **report.environment, **report.versions, **created}


def hashes(report: Report) -> list[tuple[str, str, str]]:
    """Each file of checkpoint and bundle: which of the two, name, SHA-256."""
    checkpoint = [("checkpoint", *pair) for pair in report.checkpoint_sha256.items()]
    return checkpoint + [("bundle", *pair) for pair in report.bundle_sha256.items()]
