"""Calibrated integers: whose they are, what is held of them, and whether they serve the texts they came from.

They cannot be made again bit by bit, since the last bits of activations differ between processors. So they
are taken from the bundle, and held to what calibration may choose; see `formats.calibrated`.
"""

import tempfile
from pathlib import Path

import numpy as np

from txexport.calibration import Reading, sha256_of
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.calibrating import integers_of, matrices_of
from txexport.exporter.exporter import write_float32
from txexport.families import Resolved
from txexport.formats import kept
from txexport.formats.gptq import output_error
from txexport.manifest import Form, Manifest
from txexport.runtime.preprocessing.text_file import read
from txexport.verification.checks import SkipError, TensorCheck

MOST = 1.001  # of the search's error, where activations have other last bits


def plan_of(folder: Path, checkpoint: Checkpoint, resolved: Resolved, form: Form) -> BundlePlan:
    """What export writes in that form, with the calibrated integers of the bundle in `folder`."""
    plan = BundlePlan(checkpoint, resolved, form)
    if not form.calibrated:
        return plan
    return BundlePlan(checkpoint, resolved, form, integers_of(folder, plan))


def check_texts(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved, texts: Path
) -> list[TensorCheck]:
    """The error that each calibrated matrix leaves of what it gives on the texts, beside the search's own.

    Raises SkipError for texts that calibrated nothing.
    """
    items = read(texts)
    digest = sha256_of(items)
    dtypes = [dtype for dtype, one in manifest.form.calibrated.items() if one.sha256 == digest]
    if not dtypes:
        raise SkipError(f"{texts.name} has other texts than {' and '.join(manifest.form.calibrated)} came of")
    plan = plan_of(folder, checkpoint, resolved, manifest.form)
    checks = []
    with tempfile.TemporaryDirectory(prefix="txexport-") as made:
        float32 = write_float32(checkpoint, resolved, Path(made) / "float32")
        reading = Reading(float32, plan.spec, items, matrices_of(plan, dtypes))
        for moments in reading.moments(lambda _: None):
            for name in moments.names:
                rows = np.concatenate([*plan.weights[name].rows(checkpoint)])
                for dtype in dtypes:
                    one = plan.dtypes[dtype]
                    if name in one.calibrated:
                        ours, searched = (
                            output_error(kept(how, [rows], rows.shape) - rows, moments.numbers)
                            for how in (one.calibrated[name], one.formats[name])
                        )
                        share = ours / searched if searched else float(ours > 0)
                        checks.append(TensorCheck(f"{dtype}, {name}", rows.size, share, MOST))
    return checks


def told(manifest: Manifest) -> dict[str, str]:
    """By what integers were calibrated, in words, by dtype."""
    result = {}
    for dtype, one in manifest.form.calibrated.items():
        left = f", {len(one.searched)} matrices not" if one.searched else ""
        result[dtype] = f"{one.texts:,} texts of {one.tokens:,} tokens{left}"
    return result
