"""What the forms of a report share."""

import math
from collections.abc import Sequence

from txexport.verification.checks import CaseReport
from txexport.verification.result import Report


def listed(reports: Report | Sequence[Report]) -> list[Report]:
    """One report or several, as a list."""
    return [reports] if isinstance(reports, Report) else list(reports)


def together(reports: Sequence[Report]) -> str:
    """The verdict on several reports: that of all, or the worst of them."""
    verdicts = sorted(reports, key=lambda report: (1, 2, 3, 0).index(report.exit_code))
    if not verdicts:
        return "nothing was compared"
    each = {report.verdict for report in reports}
    return verdicts[0].verdict if len(each) == 1 or not all(r.ok for r in reports) else "no difference"


def number(error: float) -> str:
    """An error or a bound, in two digits."""
    if not math.isfinite(error):
        return "not finite"
    return f"{error:.1e}" if error else "0"


def outcome(case: CaseReport) -> str:
    """In a word: ok, FAILED or skipped."""
    return "skipped" if case.skipped is not None else "ok" if case.ok else "FAILED"


def facts(report: Report) -> dict[str, str]:
    """What ran and when, by name."""
    made = {"created": report.created} if report.created else {}
    looked = {"inputs": report.reached} if report.reach else {}
    return {"runtime": report.runtime, **looked, **report.environment, **report.versions, **made}


def hashes(report: Report) -> list[tuple[str, str, str]]:
    """Where a file is, its name, its SHA-256 as it was read."""
    checkpoint = [("checkpoint", *pair) for pair in report.checkpoint_sha256.items()]
    return checkpoint + [("bundle", *pair) for pair in report.bundle_sha256.items()]
