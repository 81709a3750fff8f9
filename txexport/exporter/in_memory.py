"""A model of transformers that lies in memory, as a checkpoint: what its own save_pretrained writes.

The library keeps some parameters otherwise in memory than in files, so its writer alone says what the
checkpoint is. Its files lie beside the bundle for as long as they are read.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, runtime_checkable

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, shown
from txexport.exporter.staging import check_replaceable
from txexport.source import Place, place_of


@runtime_checkable
class PreTrainedModel(Protocol):
    """A model of transformers, by what is asked of it."""

    def save_pretrained(self, save_directory: Path) -> Any:
        """Write it to a folder."""


@runtime_checkable
class PreTrainedTokenizer(Protocol):
    """A tokenizer of transformers, or a processor, by what is asked of it."""

    def save_pretrained(self, save_directory: Path) -> Any:
        """Write it to a folder."""


@contextlib.contextmanager
def saved(
    source: str | Path | PreTrainedModel, tokenizer: PreTrainedTokenizer | None, out: Path, force: bool
) -> Iterator[Path]:
    """The checkpoint that `source` is: its path, or for a model a folder that is gone when the body ends.

    Raises InputError for a tokenizer beside a path, BundleError where `out` may not be written.
    """
    if not isinstance(source, PreTrainedModel):
        if tokenizer is not None:
            raise InputError(f"tokenizer is for a model in memory, and {shown(str(source))} is a path")
        yield Path(source)
        return
    out = out.resolve()
    place = next(parent for parent in out.parents if parent.is_dir())
    check_replaceable(out, place, force)  # before gigabytes are written
    with TemporaryDirectory(dir=place, prefix=f".{out.name}.") as folder:
        source.save_pretrained(Path(folder))
        if tokenizer is not None:
            tokenizer.save_pretrained(Path(folder))
        yield Path(folder)


def recorded(
    source: str | Path | PreTrainedModel, checkpoint: Checkpoint, out: Path, absolute: bool
) -> Place:
    """Where txexport.json says that the checkpoint is; for a model, the name of its class.

    Raises InputError for the absolute path of what has none.
    """
    if not isinstance(source, PreTrainedModel):
        return place_of(checkpoint, out, absolute)
    if absolute:
        raise InputError("absolute_source is for a checkpoint on disk; leave it out for a model in memory")
    return place_of(checkpoint, out, absolute)._replace(path=type(source).__name__)
