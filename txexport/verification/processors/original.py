"""Transformers' own processors of a checkpoint, to compare a bundle's with."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from txexport.bundle.manifest import Manifest
from txexport.checkpoints import transformers_loading
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import first_line, is_failure, shown
from txexport.tasks import Task, served_row
from txexport.verification.checks import SkipError, TensorCheck

OF_VIDEOS = ("video processor", "torchvision")  # what an error says where torchvision is missing


def task_of(manifest: Manifest) -> Task | None:
    """The row of a bundle's task; None for an unknown task."""
    return served_row(manifest.task, manifest.cache is not None, manifest.spec.get("type", ""))


def equal(what: str, count: int) -> TensorCheck:
    """The check of `count` equal answers of one kind."""
    return TensorCheck(what, count, 0.0, 0.0)


def differs(what: str, value: Any, ours: Any, theirs: Any) -> NoReturn:
    """Raise AssertionError for an answer that is not transformers'."""
    library = f"transformers {version('transformers')}"
    raise AssertionError(f"{what} of {shown(value)}: {shown(ours)}, in {library} {shown(theirs)}")


@contextmanager
def original(kind: str, checkpoint: Checkpoint, model_type: str, **options: Any) -> Iterator[Any]:
    """An instance of `kind`, an automatic class of transformers, from a checkpoint's own files.

    `model_type` is for a config.json without one, `options` are those of from_pretrained.

    Raises SkipError with the reason if the library is not installed or cannot read the files.
    """
    if find_spec("transformers") is None:
        raise SkipError("transformers is not installed")
    if checkpoint.gguf is not None:
        raise SkipError("transformers makes another of a GGUF file's metadata")
    with tempfile.TemporaryDirectory() as temporary:
        folder = _folder(checkpoint, Path(temporary))
        try:
            with warnings.catch_warnings(action="ignore"):
                processor = transformers_loading.from_pretrained(
                    kind, folder, **_config(checkpoint, model_type), **options
                )
        except BaseException as error:  # of transformers or tokenizers, which share no base class
            if not is_failure(error):
                raise
            why = f"transformers makes none of the checkpoint: {first_line(error)}"
            if find_spec("torchvision") is None and any(word in str(error).lower() for word in OF_VIDEOS):
                why = "transformers needs torchvision for this processor, which is not installed"
            raise SkipError(why) from None
        yield processor


def _config(checkpoint: Checkpoint, model_type: str) -> dict[str, Any]:
    """The config that chooses a class, if config.json has no model_type."""
    if checkpoint.config.get("model_type") is not None:
        return {}
    return {"config": transformers_loading.config_of(checkpoint.config | {"model_type": model_type})}


def _folder(checkpoint: Checkpoint, target: Path) -> Path:
    """The checkpoint's folder, or a copy of its files if they are generated, as with an adapter's labels."""
    if checkpoint.as_published:
        return checkpoint.folder
    for name, content in checkpoint.companions().items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(content.read_bytes() if isinstance(content, Path) else content)
    return target
