"""What transformers makes of a checkpoint's own files, to hold a bundle's processors against."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from txexport.checkpoints import transformers_loading
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import first_line, is_failure, shown
from txexport.verification.checks import SkipError, TensorCheck


def equal(what: str, count: int) -> TensorCheck:
    """The check of `count` answers of one kind, all of which are equal."""
    return TensorCheck(what, count, 0.0, 0.0)


def differs(what: str, given: Any, ours: Any, theirs: Any) -> NoReturn:
    """Raise AssertionError: an answer to the input `given` is not transformers'."""
    library = f"transformers {version('transformers')}"
    raise AssertionError(f"{what} of {shown(given)}: {shown(ours)}, in {library} {shown(theirs)}")


@contextmanager
def original(kind: str, checkpoint: Checkpoint, model_type: str, **options: Any) -> Iterator[Any]:
    """What `kind`, an automatic class of transformers, makes of a checkpoint's own files.

    `model_type` is for a config.json that names none, `options` are those of from_pretrained.

    Raises SkipError where the library is not installed, or makes nothing of them, with the reason.
    """
    if find_spec("transformers") is None:
        raise SkipError("transformers is not installed")
    if checkpoint.gguf is not None:
        raise SkipError("transformers makes another of a GGUF file's metadata")
    with tempfile.TemporaryDirectory() as place:
        folder = _folder(checkpoint, Path(place))
        try:
            with warnings.catch_warnings(action="ignore"):
                made = transformers_loading.from_pretrained(
                    kind, folder, **_config(checkpoint, model_type), **options
                )
        except BaseException as error:  # of transformers or tokenizers, which share no base class
            if not is_failure(error):
                raise
            raise SkipError(f"transformers makes none of the checkpoint: {first_line(error)}") from None
        yield made


def _config(checkpoint: Checkpoint, model_type: str) -> dict[str, Any]:
    """The config by which a class is chosen, where config.json names no model_type."""
    if checkpoint.config.get("model_type") is not None:
        return {}
    return {"config": transformers_loading.config_of(checkpoint.config | {"model_type": model_type})}


def _folder(checkpoint: Checkpoint, place: Path) -> Path:
    """The checkpoint's folder, or one of its files where they are made for it, as of an adapter's labels."""
    if checkpoint.as_published:
        return checkpoint.folder
    for name, content in checkpoint.companions().items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_bytes(content.read_bytes() if isinstance(content, Path) else content)
    return place
