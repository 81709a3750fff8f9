"""What a bundle remembers of its last verification."""

import math
import warnings
from pathlib import Path

from txexport import bundle
from txexport.bundle.manifest import Proof
from txexport.errors import reason
from txexport.verification.checks import CHECKPOINT, TensorCheck
from txexport.verification.result import Report


def record(folder: Path, report: Report) -> None:
    """Write what full or quick cases found into the bundle; cases by name are no proof of it.

    Where the folder cannot be written, a warning says so.
    """
    if not isinstance(report.selection, str):
        return
    try:
        manifest = bundle.read_manifest(folder)
        options = {dtype: manifest.of_dtype(dtype).session_options for dtype in manifest.formats}
        bundle.record(folder, proof(report, options))
    except OSError as error:
        warnings.warn(f"the proof was not recorded in {folder}: {reason(error)}", stacklevel=3)


def proof(report: Report, session_options: dict[str, dict[str, str]]) -> Proof:
    """A report in short, with the options that decide which numbers its sessions gave, by dtype."""
    checks = [check for case in report.cases if case.reference != CHECKPOINT for check in case.checks]
    worst = max(checks, key=_used, default=TensorCheck("", 0, math.inf, 0.0))
    skipped = [case for case in report.cases if case.skipped is not None]
    return Proof(
        created=report.created,
        verdict=report.verdict,
        scope=report.scope,
        references=[name for name in report.references if name != CHECKPOINT],
        cases=len(report.cases) - len(skipped),
        failed=len(report.failed),
        skipped=len(skipped),
        numbers=sum(check.elements for case in report.cases for check in case.checks),
        worst_output=worst.output,
        worst_error=worst.error if math.isfinite(worst.error) else None,
        bound=worst.tolerance,
        versions=report.versions,
        sha256=report.bundle_sha256,
        session_options=session_options,
        processors=report.processors,
    )


def _used(check: TensorCheck) -> float:
    """How much of its bound an error takes."""
    return check.error / check.tolerance if check.tolerance else check.error
