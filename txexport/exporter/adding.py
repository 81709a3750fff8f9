"""A bundle in one more number format."""

from pathlib import Path

from txexport import bundle
from txexport.arguments import checked
from txexport.errors import CheckpointError, InputError, crashes
from txexport.exporter.exporter import export
from txexport.manifest import Manifest
from txexport.progress import Progress
from txexport.source import ADVICE, source_of


@checked
@crashes()
def quantize(
    out: str | Path,
    dtype: str,
    *,
    source: str | Path | None = None,
    progress: Progress | None = None,
) -> Manifest:
    """Add a dtype to the bundle `out`, as it would be had it been exported with that one too.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. The bundle is replaced when the new one is whole, and is to be verified again. Raises
    InputError for a dtype that it has, and else as `export` does.
    """
    manifest = bundle.read(out)
    if dtype in manifest.formats:
        raise InputError(f"{out} has {dtype} already")
    checkpoint = source_of(Path(out), manifest, source)
    if checkpoint.hashes() != manifest.source.sha256:
        raise CheckpointError(f"{checkpoint.folder} is not what {out} was exported from; {ADVICE}")
    form = manifest.form
    return export(
        checkpoint.folder,
        out,
        task=manifest.task,
        cache=form.cache,
        opset=form.opset,
        inline=form.inline,
        only=form.only,
        single_file=form.single_file,
        client=form.client,
        dtype=[*form.dtypes, dtype],
        keep=form.keep,
        absolute_source=Path(manifest.source.path).is_absolute(),
        force=True,
        progress=progress,
    )
