"""The place of a bundle's checkpoint: recorded in txexport.json, and found again."""

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
from txexport.checkpoints.language import InLanguage
from txexport.checkpoints.rope_factors import with_rope_factors
from txexport.errors import CheckpointError

ADVICE = "give the exported one with --source"
ADAPTER_ADVICE = "give its folder with --adapter"
ALONE = ("config.json", "adapter_config.json")  # what exports of before recorded beside the weights
COMMIT = re.compile(r".+/.+@[0-9a-f]{40}")  # what an adapter that came from a model hub is called


class Place(NamedTuple):
    """The place of a checkpoint in txexport.json, and that of the adapter merged into it."""

    path: str
    adapter: str | None = None


def way_to(source: Path, out: Path, absolute: bool = False) -> str:
    """The path from the bundle `out` to its checkpoint `source`, for txexport.json; `absolute` if asked.

    It is the checkpoint's name alone if the relative path would name a person's home, or if there is none.
    """
    source, out = source.resolve(), out.resolve()
    if absolute:
        return str(source)
    if source.anchor != out.anchor or _home_of(source) not in (None, _home_of(out)):
        return source.name
    return PurePath(os.path.relpath(source, out)).as_posix()


def place_of(checkpoint: Checkpoint, out: Path, absolute: bool) -> Place:
    """The place of a checkpoint for the txexport.json of the bundle `out`: on a hub, or a path."""
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
    checkpoint: Checkpoint,
    rope_factors: str | None,
    image_size: Sequence[int] | None,
    language: str | None,
) -> Checkpoint:
    """The checkpoint with options of export applied: factors of LongRoPE, size of images, and language.

    Raises InputError or UnsupportedError for options that do not apply to it.
    """
    if rope_factors is not None:
        checkpoint = with_rope_factors(checkpoint, rope_factors)
    if language is not None:
        checkpoint = InLanguage(checkpoint, language)
    return checkpoint if image_size is None else Resized(checkpoint, image_size)


def _home_of(path: Path) -> Path | None:
    """The home directory that contains a path: the current user's, or another beside it."""
    home = Path.home()
    if home.parent != Path(home.anchor) and path.is_relative_to(home.parent) and path != home.parent:
        return home.parent / path.relative_to(home.parent).parts[0]
    return home if path.is_relative_to(home) else None


def source_of(
    out: Path, manifest: Manifest, source: str | Path | None, adapter: str | Path | None = None
) -> Checkpoint:
    """The checkpoint `source`, or by default the one that the bundle at `out` was made from.

    The `adapter` that was merged into it is treated likewise, and options are applied as in the export. A
    name alone is looked up beside the bundle and in the working directory; a checkpoint of a model hub is
    looked up there. Raises CheckpointError.
    """
    form = manifest.form
    if adapter is None and manifest.source.adapter is not None:
        adapter = manifest.source.adapter
        if not COMMIT.fullmatch(adapter):
            adapter = _found(out, adapter, "adapter", ADAPTER_ADVICE)
    checkpoint = recorded_at(out, manifest.source, source, form.language)
    return as_asked(merged(checkpoint, adapter), form.rope_factors, form.image_size, form.language)


def recorded_at(
    out: Path, recorded: Source, source: str | Path | None, language: str | None = None
) -> Checkpoint:
    """The checkpoint `source`, or by default the `recorded` one of the bundle at `out`, as `source_of`."""
    if source is not None:
        return opened(source, language)
    if recorded.repository is not None:
        return opened(f"{recorded.repository}@{recorded.revision}", language)
    return Checkpoint(_found(out, recorded.path, "checkpoint", ADVICE))


def name_of(checkpoint: Checkpoint) -> str:
    """The name of a checkpoint: its repository on a model hub or its folder, and its adapter's."""
    revision = "" if checkpoint.revision is None else f"@{checkpoint.revision[:12]}"
    name = f"{checkpoint.repository}{revision}" if checkpoint.repository else checkpoint.folder.resolve().name
    if checkpoint.adapter is None:
        return name
    return f"{name} with adapter {checkpoint.adapter_name or checkpoint.adapter.resolve().name}"


def is_listed_whole(source: Source) -> bool:
    """Tell whether an export recorded every file that changes an answer, not only config.json and weights.

    Older exports recorded only these. For a GGUF file, and a checkpoint without other files, it is the same.
    """
    is_basic = [name in ALONE or not name.endswith((*COMPANIONS, ".gguf")) for name in source.sha256]
    return not all(is_basic)


def changed(checkpoint: Checkpoint, source: Source) -> list[str]:
    """The names of files of a checkpoint that differ from the exported ones. Raises CheckpointError."""
    here, then = checkpoint.hashes(), source.sha256
    if not is_listed_whole(source):
        weights = {file.name for file in checkpoint.files}
        here = {name: digest for name, digest in here.items() if name in {*then, *weights}}
    return sorted(name for name in here.keys() | then.keys() if here.get(name) != then.get(name))


def _found(out: Path, way: str, what: str, advice: str) -> str:
    """The folder at a path recorded in the txexport.json of the bundle `out`. Raises CheckpointError."""
    path = Path(way)
    if path.is_absolute() or len(path.parts) > 1:
        candidates = [out.resolve() / path]
    else:
        candidates = [out.resolve().parent / path, path]
    place = next((place for place in candidates if place.exists()), None)
    if place is None:
        raise CheckpointError(f"the {what} of {out} is missing: '{path}'; {advice}")
    return os.path.normpath(place)
