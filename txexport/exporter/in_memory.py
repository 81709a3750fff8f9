"""A transformers model in memory, saved as a checkpoint by its save_pretrained.

Some parameters differ between memory and files, so the library's own writer must define the checkpoint. Its
files are temporary, in a folder beside the bundle.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, runtime_checkable

from txexport.bundle.source import Place, place_of
from txexport.checkpoints.adapter_config import CONFIG as ADAPTER
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, TxexportError, shown
from txexport.exporter.staging import check_replaceable
from txexport.support.paths import writing

UNMERGED = "give the result of its merge_and_unload(), or its base model with adapter=FOLDER"


@runtime_checkable
class PreTrainedModel(Protocol):
    """The interface of a transformers model that is used."""

    def save_pretrained(self, save_directory: Path) -> Any:
        """Write it to a folder."""


@runtime_checkable
class PreTrainedTokenizer(Protocol):
    """The interface of a transformers tokenizer, or a processor, that is used."""

    def save_pretrained(self, save_directory: Path) -> Any:
        """Write it to a folder."""


@contextlib.contextmanager
def saved(
    source: str | Path | PreTrainedModel, tokenizer: PreTrainedTokenizer | None, out: Path, force: bool
) -> Iterator[Path]:
    """The checkpoint of `source`: its path, or for a model a folder that is removed after the body.

    Raises InputError for a tokenizer with a path, and for an object that is no model with parameters,
    BundleError if `out` may not be written.
    """
    if not isinstance(source, PreTrainedModel):
        if tokenizer is not None:
            raise InputError(f"tokenizer is for a model in memory, and {shown(str(source))} is a path")
        yield Path(source)
        return
    name = _checked(source)
    out = out.resolve()
    place = next(parent for parent in out.parents if parent.is_dir())
    check_replaceable(out, place, force)  # before gigabytes are written
    with TemporaryDirectory(dir=place, prefix=f".{out.name}.") as folder, _named(folder, name):
        with writing(out):
            source.save_pretrained(Path(folder))
            if tokenizer is not None:
                tokenizer.save_pretrained(Path(folder))
        _check_written(Path(folder), name)
        yield Path(folder)


def _checked(source: PreTrainedModel) -> str:
    """The name of a source in error messages. Raises InputError if save_pretrained cannot save it."""
    if isinstance(source, type):
        name = source.__name__
        raise InputError(
            f"source is the class {name}, expected an instance, such as {name}.from_pretrained(FOLDER)"
        )
    name = type(source).__name__
    if hasattr(source, "merge_and_unload") and hasattr(source, "peft_config"):
        raise InputError(f"source is a {name} of peft, which saves only its adapter; {UNMERGED}")
    parameters = source.named_parameters() if hasattr(source, "named_parameters") else ()
    without = [own for own, value in parameters if getattr(value.device, "type", None) == "meta"]
    if without and not getattr(
        source, "hf_device_map", None
    ):  # its layers are offloaded, and loaded when needed
        raise InputError(
            f"{len(without)} parameters of the {name} have no values, such as {shown(without[0])}: they are "
            f"on the device meta; load the model by {name}.from_pretrained, without torch.device('meta')"
        )
    return name


def _check_written(folder: Path, name: str) -> None:
    """Raise InputError if a source has written something other than a checkpoint."""
    if (folder / "config.json").is_file():
        return
    if (folder / ADAPTER).is_file():
        raise InputError(f"the {name} has an adapter of peft, and saves only that; {UNMERGED}")
    written = ", ".join(sorted(one.name for one in folder.iterdir())[:3]) or "nothing"
    raise InputError(
        f"source is a {name}, whose save_pretrained writes {written}; expected a model's config.json"
    )


@contextlib.contextmanager
def _named(folder: str, name: str) -> Iterator[None]:
    """Replace the temporary folder in errors by the model in memory."""
    try:
        yield
    except TxexportError as error:
        folders = {folder, os.path.relpath(folder)}
        for place in sorted(folders, key=len, reverse=True):
            error.args = (str(error).replace(f"{place}/", "").replace(place, f"the {name} in memory"),)
        raise


def recorded(
    source: str | Path | PreTrainedModel, checkpoint: Checkpoint, out: Path, absolute: bool
) -> Place:
    """The place of the checkpoint in txexport.json; for a model, the name of its class.

    Raises InputError for the absolute path of a model in memory.
    """
    if not isinstance(source, PreTrainedModel):
        return place_of(checkpoint, out, absolute)
    if absolute:
        raise InputError("absolute_source is for a checkpoint on disk; leave it out for a model in memory")
    return place_of(checkpoint, out, absolute)._replace(path=type(source).__name__)
