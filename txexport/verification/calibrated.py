"""Calibrated integers: whose they are, and that they are those that their texts choose.

Without the texts they are taken from the bundle, and held to what calibration may choose (see
`formats.calibrated`), which leaves whoever wrote the bundle a choice of two for each: that is no proof. With
them they are made again, and must be the same.
"""

import tempfile
from dataclasses import replace
from pathlib import Path

from txexport.bundle.manifest import Form, Manifest
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.calibrating import Calibrating, integers_of, matrices_of
from txexport.exporter.calibration import Reading, sha256_of
from txexport.exporter.exporter import write_float32
from txexport.families import Resolved
from txexport.formats.gptq import ties_alone
from txexport.formats.number_format import unpacked
from txexport.runtime.preprocessing.text import Item
from txexport.runtime.preprocessing.text_file import read
from txexport.verification.checks import SkipError, TensorCheck


def plan_of(folder: Path, checkpoint: Checkpoint, resolved: Resolved, form: Form) -> BundlePlan:
    """What export writes in that form, with the calibrated integers of the bundle in `folder`."""
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
    """The integers of each calibrated matrix against those that the texts choose: the same, byte by byte.

    Raises SkipError, which leaves them unproved, without these texts, or where all that differ are ties,
    which this processor breaks otherwise than the one that calibrated.
    """
    items, dtypes = _chosen_by(manifest, texts)
    plan = BundlePlan(checkpoint, resolved, replace(manifest.form, calibrated={}))
    held = integers_of(folder, plan_of(folder, checkpoint, resolved, manifest.form))
    checks, tied = [], 0
    with tempfile.TemporaryDirectory(prefix="txexport-") as made:
        float32 = write_float32(checkpoint, resolved, Path(made) / "float32")
        calibrating = Calibrating(checkpoint, plan, dtypes, Path(made))
        reading = Reading(float32, plan.spec, items, matrices_of(plan, dtypes))
        for one in (
            one for moments in reading.moments(lambda _: None) for one in calibrating.chosen(moments)
        ):
            if (one.integers is None) != (one.name in manifest.form.calibrated[one.dtype].searched):
                raise AssertionError(
                    f"{one.dtype}: txexport.json says otherwise whether texts chose {one.name}"
                )
            if one.integers is not None:
                given = unpacked(held(one.dtype, one.name), one.rows.shape[::-1]).T
                differ = int((given != one.integers).sum())
                tie = differ and ties_alone(one.rows, given, one.factor, one.block)
                tied += differ if tie else 0
                error = 0.0 if tie else differ / given.size
                checks.append(TensorCheck(f"{one.dtype}, {one.name}", given.size, error, 0.0))
    checked = {check.output for check in checks}
    for dtype in dtypes:
        known = {first for first, _ in plan.dtypes[dtype].int4.values()}
        for name in known - {*manifest.form.calibrated[dtype].searched}:
            if f"{dtype}, {name}" not in checked:
                raise AssertionError(
                    f"{dtype}: txexport.json says that texts chose {name}, which they do not"
                )
    if tied and all(check.ok for check in checks):
        raise SkipError(
            f"{tied:,} integers are ties, which this processor breaks otherwise; prove it where it was made"
        )
    return checks or [TensorCheck(f"{dtype}, no matrix", 1, 0.0, 0.0) for dtype in dtypes]


def _chosen_by(manifest: Manifest, texts: Path | None) -> tuple[list[Item], list[str]]:
    """Those texts, and the dtypes that they calibrated. Raises SkipError for none."""
    names = " and ".join(manifest.form.calibrated)
    if texts is None:
        raise SkipError(f"integers of {names} were chosen by texts; to prove them, give these with --texts")
    items = read(texts)
    digest = sha256_of(items)
    dtypes = [dtype for dtype, one in manifest.form.calibrated.items() if one.sha256 == digest]
    if not dtypes:
        raise SkipError(f"{texts.name} has other texts than {names} came of")
    return items, dtypes


def summaries(manifest: Manifest) -> dict[str, str]:
    """The calibration of each dtype in words."""
    result = {}
    for dtype, one in manifest.form.calibrated.items():
        left = f", {len(one.searched)} matrices not" if one.searched else ""
        result[dtype] = f"{one.texts:,} texts of {one.tokens:,} tokens{left}"
    return result
