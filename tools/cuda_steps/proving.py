"""`verify` on a device over every row of the tests: graphs as by default, and those for CUDA."""

import tempfile
from pathlib import Path
from typing import Any

import tiny_checkpoint
from helpers.rows import ROWS

from txexport.verification.reports.facts import facts_line

NAMES = {f"{row.id} {cache or ''}".strip(): (row, cache) for row in ROWS for cache in row.caches}


# The client of export and the dtype, by step.
PROOFS = {"verify": (None, "float32"), "captured": ("cuda", "float32"), "float16": ("cuda", "float16")}


def rows_of(step: str) -> list[str]:
    """The rows of a proof: graphs for CUDA have no dynamic cache."""
    client, _ = PROOFS[step]
    return [name for name, (_, cache) in NAMES.items() if client is None or cache != "dynamic"]


def prove(name: str, device: str, client: str | None, dtype: str) -> dict[str, Any]:
    """The verdict on a row, the number of values compared, and the worst error with its bound.

    A row that such graphs cannot have is right, with the reason.
    """
    from txexport.errors import UnsupportedError
    from txexport.exporter import export
    from txexport.verification import verify

    row, cache = NAMES[name]
    options = {"cache": cache, "only": "native", "dtype": dtype, "client": client}
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        tiny_checkpoint.save(folder / "in", row.model_type, row.architecture, **row.config)
        try:
            export(folder / "in", folder / "out", task=row.task, **options)
        except UnsupportedError as error:
            if client is None:
                raise
            return {"ok": True, "device": device, "refused": str(error)}
        report = verify(folder / "out", source=folder / "in", device=device, cases="quick")
    checks = [check for case in report.cases for check in case.checks]
    return {
        "ok": report.ok,
        "device": report.device,
        "facts": facts_line(report),
        "error": max((check.error for check in checks), default=0.0),
        "versions": report.versions,
    }
