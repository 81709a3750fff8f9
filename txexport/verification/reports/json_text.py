"""A report for programs; txexport/verification/schema.json describes it."""

import json
from collections.abc import Sequence

from txexport.verification.result import FORMAT, Report


def render(reports: Report | Sequence[Report]) -> str:
    """One report as an object; several as one with `reports`."""
    if isinstance(reports, Report):
        return json.dumps(reports.to_dict(), indent=2) + "\n"
    ok = bool(reports) and all(report.ok for report in reports)
    values = {"format": FORMAT, "ok": ok, "reports": [report.to_dict() for report in reports]}
    return json.dumps(values, indent=2) + "\n"
