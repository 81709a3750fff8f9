"""The companion files of the graphs: the checkpoint's own, and those derived from it."""

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from txexport import bundle, families
from txexport.checkpoints import colbert, tokenizer_classes
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.image_size import Resized
from txexport.checkpoints.tokenizer_check import check_tokenizer
from txexport.checkpoints.tokenizer_conversion import TOKENIZER, tokenizer_json
from txexport.checkpoints.weight_resolution import check_finite
from txexport.errors import BundleError, CheckpointError, is_failure
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.hub_files import GENERATION, hub_files
from txexport.exporter.image_settings import settings_for
from txexport.runtime.preprocessing.text_length import read_max_length


def companions(checkpoint: Checkpoint, plan: BundlePlan) -> Iterator[tuple[str, Path | bytes]]:
    """The files that an application needs besides the graphs: the checkpoint's own, and derived ones.

    For a model that reads tokens, tokenizer.json is made if it is missing and can be made, or if transformers
    reads the checkpoint's differently than it says; config.json describes the graphs to clients. Raises
    CheckpointError for a file that cannot be read.
    """
    copied = checkpoint.companions()
    if isinstance(checkpoint, Resized):
        copied |= settings_for(copied, checkpoint.image_size, plan.model_type)
    copied |= _generation_settings(copied, plan, checkpoint)
    derived = hub_files(copied, plan)
    if isinstance(tokenizer := copied.get(TOKENIZER), Path):
        check_tokenizer(tokenizer)
        if plan.reads_tokens:
            _check_length(tokenizer.parent)
        model_type = checkpoint.config.get("model_type") or plan.model_type
        copied |= tokenizer_as_read(tokenizer, copied, checkpoint.config | {"model_type": model_type})
    yield from (copied | derived).items()
    if isinstance(modules := copied.get("modules.json"), Path):
        _check_modules(modules)
    if plan.reads_tokens and TOKENIZER not in copied and checkpoint.folder.is_dir():
        converted = tokenizer_json(checkpoint.folder, plan.model_type)
        if converted is not None:
            yield TOKENIZER, converted.encode()
    for module in sorted(checkpoint.folder.glob("[0-9]*_Dense")):
        yield f"{module.name}/{bundle.DENSE}", _dense(Checkpoint(module), str(module))
    if "modules.json" not in copied and colbert.is_colbert(checkpoint):
        yield from colbert.settings(checkpoint).items()
        yield f"{colbert.FOLDER}/{bundle.DENSE}", _dense(checkpoint, str(checkpoint.folder))


def _generation_settings(
    files: Mapping[str, Path | bytes], plan: BundlePlan, checkpoint: Checkpoint
) -> dict[str, bytes]:
    """The generation_config.json of a family whose original generates with ids of its own; else nothing."""
    family = families.module(plan.model_type)
    if not hasattr(family, "generation_settings"):
        return {}
    path = files.get(GENERATION)
    settings = bundle.read_json(path) if isinstance(path, Path) else {}
    return {GENERATION: json.dumps(settings | family.generation_settings(checkpoint.config)).encode()}


def tokenizer_as_read(
    path: Path, own: Mapping[str, Path | bytes], config: Mapping[str, Any]
) -> dict[str, bytes]:
    """The self-contained tokenizer.json, by name; nothing if the checkpoint's own is.

    Nothing either for files of which no tokenizer can be made: transformers makes none, and a reader of the
    bundle's gets the error.
    """
    try:
        files = {name: json.loads(_bytes(own[name])) for name in tokenizer_classes.FILES if name in own}
        text = tokenizer_classes.as_read(path.read_text(encoding="utf-8"), files, config)
    except BaseException as error:  # exceptions of tokenizers, or of files with unexpected contents
        if not is_failure(error):
            raise
        return {}
    return {} if text is None else {TOKENIZER: text.encode()}


def _bytes(content: Path | bytes) -> bytes:
    return content.read_bytes() if isinstance(content, Path) else content


def _check_length(folder: Path) -> None:
    """Raise CheckpointError for a limit of texts that is no number, which every text would fail at."""
    try:
        read_max_length(folder)
    except BundleError as error:
        raise CheckpointError(str(error)) from None


def _check_modules(path: Path) -> None:
    """Raise CheckpointError if sentence-transformers' modules are not in the folders that a bundle has."""
    try:
        for module in bundle.read_json(path, missing=[]):
            if isinstance(module, dict):
                bundle.module_folder(module)
    except BundleError as error:
        raise CheckpointError(f"{path.parent}: {error}") from None


def _dense(layer: Checkpoint, place: str) -> bytes:
    """A dense layer of sentence-transformers as a file of NumPy arrays. Raises CheckpointError."""
    file = io.BytesIO()
    if "linear.weight" not in layer.tensors:
        raise CheckpointError(f"{place} has no tensor linear.weight")
    tensors = [tensor for tensor in layer.tensors if tensor.startswith("linear.")]
    arrays: Any = {tensor.removeprefix("linear."): layer.read(tensor) for tensor in tensors}
    for tensor, array in arrays.items():
        check_finite(array, f"tensor 'linear.{tensor}' of {place}")
    np.savez(file, **arrays)
    return file.getvalue()
