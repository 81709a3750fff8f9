"""Where a bundle's checkpoint is: what its txexport.json says of that, and how it is found again."""

import os
import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import NamedTuple

from txexport.bundle.manifest import Manifest, Source
from txexport.checkpoints.adapters import Merged
from txexport.checkpoints.checkpoint import COMPANIONS, Checkpoint
from txexport.checkpoints.hub import adapter_at, opened
from txexport.checkpoints.image_size import Resized
from txexport.checkpoints.rope_factors import with_rope_factors
from txexport.errors import CheckpointError

ADVICE = "give the exported one with --source"
ADAPTER_ADVICE = "give its folder with --adapter"
ALONE = ("config.json", "adapter_config.json")  # what exports of before recorded beside the weights
COMMIT = re.compile(r".+/.+@[0-9a-f]{40}")  # what an adapter that came from a model hub is called


class Place(NamedTuple):
    """Where a txexport.json says that a checkpoint is, and the adapter that is merged into it."""

    path: str
    adapter: str | None = None


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


def place_of(checkpoint: Checkpoint, out: Path, absolute: bool) -> Place:
    """Where the txexport.json of the bundle `out` says that its checkpoint is: on a hub, or by the way."""
    path = checkpoint.repository or way_to(checkpoint.folder, out, absolute)
    adapter = checkpoint.adapter
    if adapter is None:
        return Place(path)
    return Place(path, checkpoint.adapter_name or way_to(adapter, out, absolute))


def merged(checkpoint: Checkpoint, adapter: str | Path | None) -> Checkpoint:
    """The checkpoint with an adapter, if there is one: in a folder, or of that name on a model hub."""
    if adapter is None:
        return checkpoint
    folder, name = adapter_at(adapter)
    result = Merged(checkpoint, folder)
    result.adapter_name = name
    return result


def as_asked(
    checkpoint: Checkpoint, rope_factors: str | None, image_size: Sequence[int] | None
) -> Checkpoint:
    """The checkpoint as options of export have it read: with those factors of LongRoPE, for those images.

    Raises InputError or UnsupportedError for options that are not for it.
    """
    if rope_factors is not None:
        checkpoint = with_rope_factors(checkpoint, rope_factors)
    return checkpoint if image_size is None else Resized(checkpoint, image_size)


def _home_of(path: Path) -> Path | None:
    """The person's home that a path lies in: this one's, or another beside it."""
    home = Path.home()
    if home.parent != Path(home.anchor) and path.is_relative_to(home.parent) and path != home.parent:
        return home.parent / path.relative_to(home.parent).parts[0]
    return home if path.is_relative_to(home) else None


def source_of(
    out: Path, manifest: Manifest, source: str | Path | None, adapter: str | Path | None = None
) -> Checkpoint:
    """The checkpoint `source`, or else the one that the bundle at `out` was made of, where it still is.

    So is the `adapter` that was merged into it, and it is read as it was then. A name alone is looked for
    beside the bundle, and where the command runs; one that came from a model hub there. Raises
    CheckpointError.
    """
    if adapter is None and manifest.source.adapter is not None:
        adapter = manifest.source.adapter
        if not COMMIT.fullmatch(adapter):
            adapter = _found(out, adapter, "adapter", ADAPTER_ADVICE)
    if source is not None:
        checkpoint = opened(source)
    elif manifest.source.repository is not None:
        checkpoint = opened(f"{manifest.source.repository}@{manifest.source.revision}")
    else:
        checkpoint = Checkpoint(_found(out, manifest.source.path, "checkpoint", ADVICE))
    return as_asked(merged(checkpoint, adapter), manifest.form.rope_factors, manifest.form.image_size)


def name_of(checkpoint: Checkpoint) -> str:
    """The name of a checkpoint: its repository on a model hub or its folder, and its adapter's."""
    revision = "" if checkpoint.revision is None else f"@{checkpoint.revision[:12]}"
    name = f"{checkpoint.repository}{revision}" if checkpoint.repository else checkpoint.folder.resolve().name
    if checkpoint.adapter is None:
        return name
    return f"{name} with adapter {checkpoint.adapter_name or checkpoint.adapter.resolve().name}"


def is_listed_whole(source: Source) -> bool:
    """Tell whether an export recorded every file that moves an answer, and not config.json and weights alone.

    Older ones did not. Of a GGUF file, and of a checkpoint with nothing beside the two, that is the same.
    """
    alone = [name in ALONE or not name.endswith((*COMPANIONS, ".gguf")) for name in source.sha256]
    return not all(alone)


def changed(checkpoint: Checkpoint, source: Source) -> list[str]:
    """The files of a checkpoint that are not those which were exported, by name. Raises CheckpointError."""
    here, then = checkpoint.hashes(), source.sha256
    if not is_listed_whole(source):
        weights = {file.name for file in checkpoint.files}
        here = {name: digest for name, digest in here.items() if name in {*then, *weights}}
    return sorted(name for name in here.keys() | then.keys() if here.get(name) != then.get(name))


def _found(out: Path, way: str, what: str, advice: str) -> str:
    """Where the way that the txexport.json of the bundle `out` tells leads. Raises CheckpointError."""
    path = Path(way)
    if path.is_absolute() or len(path.parts) > 1:
        places = [out.resolve() / path]
    else:
        places = [out.resolve().parent / path, path]
    place = next((place for place in places if place.exists()), None)
    if place is None:
        raise CheckpointError(f"the {what} of {out} is missing: '{path}'; {advice}")
    return os.path.normpath(place)
