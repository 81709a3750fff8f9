"""`quantize`: add a number format to a bundle."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from txexport import bundle, families
from txexport.bundle.manifest import Manifest
from txexport.bundle.source import ADVICE, changed, place_of, source_of
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import BundleError, CheckpointError, InputError, crashes
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.bundle_writing import Item, write_bundle
from txexport.exporter.exporter import samples
from txexport.exporter.options import check_dtypes, check_stored
from txexport.formats import Integers
from txexport.support.aliases import dtype_named
from txexport.support.arguments import checked
from txexport.support.paths import sha256
from txexport.support.progress import Progress, counting


@checked
@crashes()
def quantize(
    out: str | Path,
    dtype: str,
    *,
    source: str | Path | None = None,
    adapter: str | Path | None = None,
    texts: str | Path | Sequence[Item] | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Add a dtype to the bundle `out`, with the same result as an export with this dtype too.

    `source` is the checkpoint, by default the folder that it was exported from, and `adapter` the one that
    was merged into it; their files must be unchanged since the export. `texts` calibrate the dtype, as in
    `export`; dtypes that are calibrated already stay unchanged. The bundle is replaced when the new one is
    complete, and must be verified again. Raises InputError for a dtype that it has, and otherwise as `export`
    does.
    """
    manifest, dtype = bundle.read(out), dtype_named(dtype)
    bundle.spec_of(Path(out), manifest)  # a traced one has none, and no other dtype
    if dtype in manifest.formats:
        raise InputError(f"{out} has {dtype} already")
    checkpoint = source_of(Path(out), manifest, source, adapter)
    if changed(checkpoint, manifest.source):
        raise CheckpointError(f"{checkpoint.folder} is not what {out} was exported from; {ADVICE}")
    told = None if checkpoint.config.get("model_type") else manifest.model_type  # as in the export
    resolved = families.resolve(checkpoint, manifest.task, told)
    dtypes = check_dtypes([*manifest.form.dtypes, dtype], manifest.form.opset)
    check_stored(dtypes, checkpoint)
    items = None if texts is None else samples(texts, resolved, [dtype])
    options = replace(manifest.form, dtypes=dtypes)
    plan = BundlePlan(checkpoint, resolved, options, _integers(Path(out), manifest, checkpoint, resolved))
    place = place_of(checkpoint, Path(out), Path(manifest.source.path).is_absolute())
    return write_bundle(checkpoint, resolved, plan, Path(out), place, True, counting(progress), items)


def _integers(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: families.Resolved
) -> Integers | None:
    """The bundle's calibrated integers. Raises BundleError if they were changed since the export."""
    if not manifest.form.calibrated:
        return None
    from txexport.exporter.calibrating import integers_of

    known = {path: data.sha256 for path, data in manifest.data.items()}
    if manifest.form.single_file:
        known = {graph.file: graph.sha256 for graph in manifest.every_graph}
    for path, digest in known.items():
        if sha256(folder / path) != digest:
            raise BundleError(f"{folder / path} is not the file that was exported; export again")
    return integers_of(folder, BundlePlan(checkpoint, resolved, manifest.form))
