"""Where a bundle's checkpoint is: what its txexport.json says of that, and how it is found again."""

import os
from pathlib import Path, PurePath

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.hub import opened
from txexport.errors import CheckpointError
from txexport.manifest import Manifest

ADVICE = "say where the one that was exported is with --source"


def way_to(source: Path, out: Path, absolute: bool = False) -> str:
    """The way from the bundle `out` to its checkpoint `source`, for txexport.json, or its `absolute` path.

    The way is the checkpoint's name alone where the way would say in whose home that lies, or there is none.
    """
    source, out = source.resolve(), out.resolve()
    if absolute:
        return str(source)
    if source.anchor != out.anchor or _home_of(source) not in (None, _home_of(out)):
        return source.name
    return PurePath(os.path.relpath(source, out)).as_posix()


def place_of(checkpoint: Checkpoint, out: Path, absolute: bool) -> str:
    """Where the txexport.json of the bundle `out` says that its checkpoint is: on a hub, or by the way."""
    if checkpoint.repository is not None:
        return checkpoint.repository
    return way_to(checkpoint.folder, out, absolute)


def _home_of(path: Path) -> Path | None:
    """The person's home that a path lies in: this one's, or another beside it."""
    home = Path.home()
    if home.parent != Path(home.anchor) and path.is_relative_to(home.parent) and path != home.parent:
        return home.parent / path.relative_to(home.parent).parts[0]
    return home if path.is_relative_to(home) else None


def source_of(out: Path, manifest: Manifest, source: str | Path | None) -> Checkpoint:
    """The checkpoint `source`, or else the one that the bundle at `out` was made of, where it still is.

    A name alone is looked for beside the bundle, and where the command runs; one that came from a model hub
    there. Raises CheckpointError.
    """
    if source is not None:
        return opened(source)
    if manifest.source.repository is not None:
        return opened(f"{manifest.source.repository}@{manifest.source.revision}")
    path = Path(manifest.source.path)
    if path.is_absolute() or len(path.parts) > 1:
        places = [out.resolve() / path]
    else:
        places = [out.resolve().parent / path, path]
    place = next((place for place in places if place.exists()), None)
    if place is None:
        raise CheckpointError(f"the checkpoint of {out} is not there: '{path}'; {ADVICE}")
    return Checkpoint(os.path.normpath(place))
