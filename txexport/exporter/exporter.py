"""From a checkpoint to a bundle, streaming the weights, without PyTorch."""

import contextlib
import io
import json
import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass
from txgraphs import OPSET
from txgraphs._lowering import IR_VERSIONS
from txgraphs._nodes import Parameter
from txgraphs.model import models

from txexport import bundle, families
from txexport.arguments import checked
from txexport.bundle import GraphFile, Manifest, Source, limits
from txexport.checkpoints.checkpoint import Checkpoint, chunks
from txexport.checkpoints.tokenizer_conversion import TOKENIZER, tokenizer_json
from txexport.checkpoints.weight_map import check_finite
from txexport.contracts import Contract, Port, roles
from txexport.errors import BundleError, CheckpointError, InputError, UnsupportedError, crashes, shown
from txexport.exporter.staging import placed
from txexport.exporter.weight_file import WeightFile
from txexport.families import Resolved
from txexport.formats import FLOAT32
from txexport.paths import sha256
from txexport.progress import Progress
from txexport.spec import Cache, ModelSpec
from txexport.spec.serialization import to_dict
from txexport.tasks import TASKS, Task

# What writes the graphs, and what makes a tokenizer.json where a checkpoint has none.
LIBRARIES = ("txexport", "onnx", "onnx-ir", "onnxscript", "numpy", "tokenizers", "transformers")


@checked
@crashes()
def export(
    source: str | Path,
    out: str | Path,
    *,
    task: str | None = None,
    cache: str | None = None,
    opset: int = OPSET,
    inline: bool = False,
    force: bool = False,
    progress: Progress | None = None,
) -> Manifest:
    """Write the bundle of the checkpoint `source` to the folder `out`, and return its manifest.

    `task` defaults to the one that config.json's architecture implies; `cache` is "static" (default) or
    "dynamic" and only for models that decode; `opset` is 17 to 24, below 24 with newer operators spelled
    out in older ones; `inline` writes flat graphs without functions; `force`
    replaces an existing bundle; `progress` is told bytes done and bytes in all. The bundle appears
    whole or not at all. Raises CheckpointError, UnsupportedError, BundleError, InputError.
    """
    checkpoint = Checkpoint(source)
    resolved = families.resolve(checkpoint, task)
    contract = _contract(TASKS[resolved.task], cache)
    if opset not in IR_VERSIONS:
        raise InputError(f"opset {opset} is not known; expected {min(IR_VERSIONS)} to {max(IR_VERSIONS)}")
    with placed(Path(out).resolve(), checkpoint.folder, force) as folder:
        weights = weight_file(checkpoint, resolved)
        digest = weights.write(folder, progress or _silent)
        graphs = {
            role: _write_graph(folder, roles.file(role), model)
            for role, model in graph_models(
                resolved.spec, contract.cache or Cache.STATIC, weights.parameters(folder), opset, inline
            ).items()
        }
        companions = _copy_companions(checkpoint, folder, bundle.reads_tokens(graphs))
        manifest = Manifest(
            model_type=resolved.model_type,
            task=resolved.task,
            cache=contract.cache and contract.cache.value,
            opset=opset,
            inline=inline,
            graphs=graphs,
            limits=limits(resolved.spec),
            spec=to_dict(resolved.spec),
            source=Source(str(checkpoint.folder.resolve()), checkpoint.hashes()),
            companions=companions,
            weights_sha256=digest,
            weights_bytes=weights.size,
            versions=versions(),
        )
        manifest.write(folder / bundle.MANIFEST)
    return manifest


def _contract(task: Task, cache: str | None) -> Contract:
    """The task's contract with the cache that was asked for, or its first."""
    if cache is None:
        return task.contracts[0]
    if not task.caches:
        raise UnsupportedError(f"task '{task.name}' has no cache to choose")
    known = {str(contract.cache): contract for contract in task.contracts}
    if cache not in known:
        raise InputError(f"cache '{cache}' is not known; expected {' or '.join(known)}")
    return known[cache]


def versions() -> dict[str, str]:
    """The versions of what makes an export: Python, and those libraries that are installed."""
    result = {}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            result[name] = version(name)
    return result | {"python": platform.python_version()}


def weight_file(checkpoint: Checkpoint, resolved: Resolved) -> WeightFile:
    """The weights file of a bundle, in which every parameter is float32."""
    return WeightFile(checkpoint, resolved.weights, dict.fromkeys(resolved.weights, FLOAT32))


def _silent(done: int, total: int) -> None:
    pass


def graph_models(
    spec: ModelSpec, cache: Cache, stored: Mapping[str, Parameter], opset: int, inline: bool
) -> dict[str, ir.Model]:
    """The graphs of a model by role, as they are written; equal versions of `versions()` give equal bytes."""
    result = {}
    for role, graph in models(spec, cache, stored).items():
        model = graph.model(version("txexport"), opset)
        if inline:
            model = InlinePass()(model).model
            model.opset_imports.pop("txexport", None)
        result[role] = model
    return result


def _write_graph(folder: Path, file: str, model: ir.Model) -> GraphFile:
    """Write one ONNX file and have onnx's checker pass it."""
    onnx.save(ir.to_proto(model), folder / file)
    onnx.checker.check_model(folder / file, full_check=True)
    inputs, outputs = (
        [_port(value) for value in ports] for ports in (model.graph.inputs, model.graph.outputs)
    )
    return GraphFile(file, inputs, outputs, sha256(folder / file))


def _port(value: ir.Value) -> Port:
    assert value.name is not None
    assert value.dtype is not None
    assert value.shape is not None
    dims = [dim if isinstance(dim, int) else str(dim.value) for dim in value.shape]
    return Port(value.name, value.dtype.name.lower(), dims)


def companions(checkpoint: Checkpoint, reads: bool) -> Iterator[tuple[str, Path | bytes]]:
    """The files that an application needs beside the graphs: the checkpoint's own, and what is made of it.

    For a model that `reads` tokens, a tokenizer.json is made where none is there and one can be. Raises
    CheckpointError for a file that cannot be read.
    """
    own = checkpoint.companions()
    yield from own.items()
    if TOKENIZER in own:
        _check_ids(own[TOKENIZER])
    if "modules.json" in own:
        _check_modules(own["modules.json"])
    if reads and TOKENIZER not in own and (made := tokenizer_json(checkpoint.folder)) is not None:
        yield TOKENIZER, made.encode()
    for module in sorted(checkpoint.folder.glob("[0-9]*_Dense")):
        yield f"{module.name}/{bundle.DENSE}", _dense(module)


def _copy_companions(checkpoint: Checkpoint, folder: Path, reads: bool) -> dict[str, str]:
    """Write what an application needs beside the graphs; SHA-256 by name."""
    digests = {}
    for name, content in companions(checkpoint, reads):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            copy.writelines(chunks(content) if isinstance(content, Path) else [content])
        digests[name] = sha256(path)
    return digests


def _check_ids(path: Path) -> None:
    """Raise CheckpointError for two words of one id: which one an id is would change from run to run."""
    try:
        model = json.loads(path.read_bytes())["model"]["vocab"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return  # the tokenizers library says what is wrong with it
    if not isinstance(model, dict):
        return  # a list, whose places are the ids
    words: dict[int, str] = {}
    for word, number in model.items():
        if isinstance(number, int) and words.setdefault(number, word) != word:
            raise CheckpointError(
                f"{path} has two words of the id {number}, {shown(words[number])} and {shown(word)}; "
                "expected one, or an id would be either; make the tokenizer again"
            )


def _check_modules(path: Path) -> None:
    """Raise CheckpointError where sentence-transformers' modules lie elsewhere than a bundle has them."""
    try:
        for module in bundle.read_json(path, missing=[]):
            if isinstance(module, dict):
                bundle.module_folder(module)
    except BundleError as error:
        raise CheckpointError(f"{path.parent}: {error}") from None


def _dense(module: Path) -> bytes:
    """A dense layer of sentence-transformers as a file of NumPy's arrays. Raises CheckpointError."""
    layer, file = Checkpoint(module), io.BytesIO()
    if "linear.weight" not in layer.tensors:
        raise CheckpointError(f"{module} has no tensor linear.weight")
    arrays: Any = {tensor.removeprefix("linear."): layer.read(tensor) for tensor in layer.tensors}
    for tensor, array in arrays.items():
        check_finite(array, f"tensor 'linear.{tensor}' of {module}")
    np.savez(file, **arrays)
    return file.getvalue()
