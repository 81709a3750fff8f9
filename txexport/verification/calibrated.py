"""Checks of GPTQ-calibrated integers: against the calibration rule, and against a repeated calibration.

Without the calibration texts, the integers in the bundle must be among those that calibration may choose (see
`formats.calibrated`): one of two for each number, which is no proof. With the texts the calibration is
repeated, and must give the same integers.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.bundle_writing import write_float32
from txexport.exporter.calibrating import Calibrating, integers_of, matrices_of
from txexport.exporter.calibration import Reading, sha256_of
from txexport.families import Resolved
from txexport.formats.gptq import ties_alone
from txexport.formats.number_format import unpacked
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.preprocessing.text_file import read
from txexport.verification.checks import SkipError, TensorCheck


def plan_of(folder: Path, checkpoint: Checkpoint, resolved: Resolved, form: ExportOptions) -> BundlePlan:
    """The plan of an export in that form, with the calibrated integers of the bundle in `folder`."""
    plan = BundlePlan(checkpoint, resolved, form)
    if not form.calibrated:
        return plan
    return BundlePlan(checkpoint, resolved, form, integers_of(folder, plan))


def check_texts(
    folder: Path,
    manifest: Manifest,
    checkpoint: Checkpoint,
    resolved: Resolved,
    texts: Path | None,
) -> list[TensorCheck]:
    """Compare the integers of each calibrated matrix with those of a new calibration, byte by byte.

    Raises SkipError if the texts are missing, or if all differences are ties, which this processor breaks
    differently from the one that calibrated.
    """
    items, dtypes = _calibration_texts(manifest, texts)
    checks, ties = [], 0
    for matrix in _calibrated_again(folder, manifest, checkpoint, resolved, (items, dtypes)):
        ties += matrix.ties
        checks.append(TensorCheck(f"{matrix.dtype}, {matrix.name}", matrix.size, matrix.differing, 0.0))
    plan = BundlePlan(checkpoint, resolved, replace(manifest.form, calibrated={}))
    _check_all_calibrated(manifest, plan, dtypes, checks)
    if ties and all(check.ok for check in checks):
        raise SkipError(
            f"{ties:,} integers are ties, which this processor breaks differently; "
            "verify on the machine that made the bundle"
        )
    return checks or [TensorCheck(f"{dtype}, no matrix", 1, 0.0, 0.0) for dtype in dtypes]


@dataclass(frozen=True)
class _Matrix:
    """A matrix against a new calibration; `differing` is the share of other integers without ties."""

    dtype: str
    name: str
    size: int
    differing: float
    ties: int


def _calibrated_again(
    folder: Path,
    manifest: Manifest,
    checkpoint: Checkpoint,
    resolved: Resolved,
    texts: tuple[list[Item], list[str]],
) -> Iterator[_Matrix]:
    """Calibrate with the texts again, for these dtypes, and compare matrix by matrix.

    Raises AssertionError if txexport.json is wrong about which matrices were calibrated.
    """
    items, dtypes = texts
    plan = BundlePlan(checkpoint, resolved, replace(manifest.form, calibrated={}))
    stored = integers_of(folder, plan_of(folder, checkpoint, resolved, manifest.form))
    with tempfile.TemporaryDirectory(prefix="txexport-") as temporary:
        float32 = write_float32(checkpoint, resolved, Path(temporary) / "float32")
        calibrating = Calibrating(checkpoint, plan, dtypes, Path(temporary))
        reading = Reading(float32, plan.spec, items, matrices_of(plan, dtypes))
        for moments in reading.moments(lambda _: None):
            for matrix in calibrating.chosen(moments):
                searched = manifest.form.calibrated[matrix.dtype].searched
                if (matrix.integers is None) != (matrix.name in searched):
                    raise AssertionError(
                        f"{matrix.dtype}: txexport.json and the texts disagree on whether "
                        f"{matrix.name} is calibrated"
                    )
                if matrix.integers is None:
                    continue
                integers = unpacked(stored(matrix.dtype, matrix.name), matrix.rows.shape[::-1]).T
                differing = int((integers != matrix.integers).sum())
                ties = differing and ties_alone(matrix.rows, integers, matrix.factor, matrix.block)
                share = 0.0 if ties else differing / integers.size
                yield _Matrix(matrix.dtype, matrix.name, integers.size, share, differing if ties else 0)


def _check_all_calibrated(
    manifest: Manifest, plan: BundlePlan, dtypes: list[str], checks: list[TensorCheck]
) -> None:
    """Raise AssertionError for a matrix that is calibrated by txexport.json, and not by the texts."""
    checked = {check.output for check in checks}
    for dtype in dtypes:
        known = {first for first, _ in plan.dtypes[dtype].int4.values()}
        for name in known - {*manifest.form.calibrated[dtype].searched}:
            if f"{dtype}, {name}" not in checked:
                raise AssertionError(
                    f"{dtype}: txexport.json lists {name} as calibrated, but the texts do not calibrate it"
                )


def _calibration_texts(manifest: Manifest, texts: Path | None) -> tuple[list[Item], list[str]]:
    """The texts, and the dtypes that they calibrated. Raises SkipError if there are none."""
    names = " and ".join(manifest.form.calibrated)
    if texts is None:
        raise SkipError(
            f"integers of {names} are calibrated on texts; to prove them, give the texts with --texts"
        )
    items = read(texts)
    digest = sha256_of(items)
    dtypes = [dtype for dtype, one in manifest.form.calibrated.items() if one.sha256 == digest]
    if not dtypes:
        raise SkipError(f"{texts.name} has other texts than {names} came of")
    return items, dtypes


def summaries(manifest: Manifest) -> dict[str, str]:
    """A summary of the calibration of each dtype."""
    result = {}
    for dtype, one in manifest.form.calibrated.items():
        left = f", {len(one.searched)} matrices not" if one.searched else ""
        result[dtype] = f"{one.texts:,} texts of {one.tokens:,} tokens{left}"
    return result
