"""`verify` on a device over every row of the tests."""

import tempfile
from pathlib import Path
from typing import Any

import tiny_checkpoint
from helpers.rows import ROWS

from txexport.verification.reports.facts import facts_line

NAMES = {f"{row.id} {cache or ''}".strip(): (row, cache) for row in ROWS for cache in row.caches}


def prove(name: str, device: str, dtype: str) -> dict[str, Any]:
    """The verdict on a row, the number of values compared, and the worst error with its bound."""
    from txexport.exporter import export
    from txexport.verification import verify

    row, cache = NAMES[name]
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        tiny_checkpoint.save(folder / "in", row.model_type, row.architecture, **row.config)
        export(folder / "in", folder / "out", task=row.task, cache=cache, only="native", dtype=dtype)
        report = verify(folder / "out", source=folder / "in", device=device, cases="quick")
    checks = [check for case in report.cases for check in case.checks]
    return {
        "ok": report.ok,
        "device": report.device,
        "facts": facts_line(report),
        "error": max((check.error for check in checks), default=0.0),
        "versions": report.versions,
    }
