"""What the forms of a report share."""

import math
import re
from collections.abc import Sequence

from txexport.parity.report import CaseReport, Report

# What XML 1.0 has no place for: control characters, lone surrogates.
UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def listed(reports: Report | Sequence[Report]) -> list[Report]:
    """One report or several, as a list."""
    return [reports] if isinstance(reports, Report) else list(reports)


def clean(text: str) -> str:
    """Text that every form can hold."""
    return UNWRITABLE.sub("\ufffd", text)


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
    return {"runtime": report.runtime, **report.environment, **report.versions, **made}


def hashes(report: Report) -> list[tuple[str, str, str]]:
    """Where a file is, its name, its SHA-256 as the bundle's manifest has it."""
    checkpoint = [("checkpoint", *pair) for pair in report.checkpoint_sha256.items()]
    return checkpoint + [("bundle", *pair) for pair in report.bundle_sha256.items()]
