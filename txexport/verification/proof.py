"""The record of a bundle's last verification in its manifest."""

import math
import warnings
from collections.abc import Mapping
from pathlib import Path

from txexport import bundle
from txexport.bundle.proof import Proof
from txexport.errors import reason
from txexport.verification.answers.stored import Answers, packed
from txexport.verification.checks import CHECKPOINT, TensorCheck
from txexport.verification.result import Report


def record(folder: Path, report: Report, answers: Mapping[str, Answers]) -> None:
    """Write the result of full or quick cases into the bundle; named cases prove too little.

    If it is equal, the answers of the references are written too, by the graphs that they are for. Warns if
    the folder cannot be written.
    """
    if not isinstance(report.selection, str):
        return
    try:
        written = packed(answers) if report.exact and answers else None
        bundle.record(folder, proof(report, _session_options(folder)), written)
    except OSError as error:
        warnings.warn(f"the proof was not recorded in {folder}: {reason(error)}", stacklevel=3)


def _session_options(folder: Path) -> dict[str, dict[str, str]]:
    """The session options that influence the numbers, by dtype; a traced graph runs without any."""
    if bundle.is_traced(folder):
        return {}
    manifest = bundle.read_manifest(folder)
    return {dtype: manifest.of_dtype(dtype).session_options for dtype in manifest.formats}


def proof(report: Report, session_options: dict[str, dict[str, str]]) -> Proof:
    """A summary of a report, with the session options that influence the numbers, by dtype."""
    checks = [check for case in report.cases if case.reference != CHECKPOINT for check in case.checks]
    worst = max(checks, key=_share_of_bound, default=TensorCheck("", 0, math.inf, 0.0))
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


def _share_of_bound(check: TensorCheck) -> float:
    """The error as a share of its bound."""
    return check.error / check.tolerance if check.tolerance else check.error
