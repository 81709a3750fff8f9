"""From a checkpoint to a bundle, streaming the weights, without PyTorch."""

import contextlib
import glob
import hashlib
import json
import math
import os
import platform
import re
import shutil
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx_ir.passes.common import InlinePass
from txgraphs import OPSET
from txgraphs._graph import Graph
from txgraphs._lowering import IR_VERSIONS
from txgraphs.model import models

from txexport import bundle, families
from txexport.bundle import WEIGHTS, GraphFile, Manifest, Port, Source
from txexport.checkpoint import Checkpoint, sha256
from txexport.errors import BundleError, CheckpointError, InputError, UnsupportedError
from txexport.spec import Cache, ModelSpec
from txexport.spec_json import to_dict
from txexport.tokenizer_file import TOKENIZER, tokenizer_json
from txexport.weights import Weight

Progress = Callable[[int, int], None]


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
    resolved = families.understand(checkpoint, task)
    if cache is not None and not resolved.spec.generates:
        raise UnsupportedError(f"task '{resolved.task}' has no cache to choose")
    if cache is not None and cache not in list(Cache):
        raise InputError(f"cache '{cache}' is not known; expected {' or '.join(Cache)}")
    if opset not in IR_VERSIONS:
        raise InputError(f"opset {opset} is not known; expected {min(IR_VERSIONS)} to {max(IR_VERSIONS)}")
    kind = Cache(cache or Cache.STATIC)
    with _placed(Path(out).resolve(), checkpoint.folder, force) as folder:
        tensors, digest = _write_weights(folder, checkpoint, resolved.weights, progress or _silent)
        graphs = {
            role: _write_graph(folder, f"{role}.onnx", graph, opset, inline)
            for role, graph in models(resolved.spec, kind, tensors).items()
        }
        companions = _copy_companions(checkpoint, folder, bundle.reads_tokens(graphs))
        manifest = Manifest(
            model_type=resolved.model_type,
            task=resolved.task,
            cache=str(kind) if resolved.spec.generates else None,
            opset=opset,
            graphs=graphs,
            limits=_limits(resolved.spec),
            spec=to_dict(resolved.spec),
            source=Source(str(checkpoint.folder.resolve()), checkpoint.hashes()),
            companions=companions,
            weights_sha256=digest,
            weights_bytes=(folder / WEIGHTS).stat().st_size,
            versions={name: version(name) for name in ("txexport", "onnx", "onnx-ir", "onnxscript", "numpy")}
            | {"python": platform.python_version()},
        )
        manifest.write(folder / bundle.MANIFEST)
    return manifest


def _limits(spec: ModelSpec) -> dict[str, int | None]:
    stacks = {"encoder": spec.encoder, "decoder": spec.decoder}
    if spec.towers is not None:
        stacks = {"text": spec.towers.text}
    return {name: stack.limit for name, stack in stacks.items() if stack is not None}


def _silent(done: int, total: int) -> None:
    pass


@contextlib.contextmanager
def _placed(out: Path, source: Path, force: bool) -> Iterator[Path]:
    """A fresh folder beside `out` that becomes `out` when the body ends, and vanishes if it fails.

    `out` itself is untouched until then. What exports that were killed have left beside it is removed.
    """
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    old = out.with_name(f".{out.name}.txexport-old-{mark}")
    try:
        _tidy(out)
        _check_replaceable(out, source, force)
        out.parent.mkdir(parents=True, exist_ok=True)
        partial = out.with_name(f".{out.name}.txexport-partial-{mark}")
        partial.mkdir()
        try:
            yield partial
            _check_replaceable(out, source, force)  # another export may have been faster
            _swap(partial, out, old)
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
    except OSError as error:
        raise BundleError(
            f"{out} could not be written: {error.strerror or error}; it is as it was"
        ) from error


def _tidy(out: Path) -> None:
    """Undo what killed exports to `out` have left: an old bundle moved aside, unfinished folders."""
    for kind in ("old", "partial"):
        for leftover in sorted(out.parent.glob(f".{glob.escape(out.name)}.txexport-{kind}-*-*")):
            if _alive(leftover):
                continue
            if kind == "old" and not out.exists():  # killed between the two renames of `_swap`
                os.replace(leftover, out)
            else:
                shutil.rmtree(leftover, ignore_errors=True)


def _check_replaceable(out: Path, source: Path, force: bool) -> None:
    """Raise BundleError unless `out` is free, an empty folder, or a bundle that `force` may replace."""
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / bundle.MANIFEST).is_file():
        raise BundleError(f"{out} exists and is not a bundle; choose another folder")
    if not force:
        raise BundleError(f"{out} exists; choose another folder, or --force to replace it")
    if source.resolve().is_relative_to(out):
        raise BundleError(f"{out} holds the checkpoint itself; choose another folder")
    try:
        known = set(bundle.read_manifest(out).files)
    except BundleError:
        raise BundleError(
            f"{out} has a {bundle.MANIFEST} that cannot be read; remove the folder yourself"
        ) from None
    found = [path.relative_to(out).as_posix() for path in out.rglob("*") if not path.is_dir()]
    strange = sorted(set(found) - known)
    if strange:
        raise BundleError(
            f"{out} holds files that no export wrote ({', '.join(strange[:3])}); move them away"
        )


def _swap(partial: Path, out: Path, old: Path) -> None:
    """Put `partial` where `out` is, and `out` back if that fails."""
    if not out.exists():
        os.replace(partial, out)
        return
    os.replace(out, old)
    try:
        os.replace(partial, out)
    except OSError:
        os.replace(old, out)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _alive(leftover: Path) -> bool:
    """Whether the process that a folder's name ends with still runs; where unknown, yes."""
    numbers = re.fullmatch(r".*-(\d+)-\d+", leftover.name)
    if os.name == "nt" or numbers is None:
        return True
    try:
        os.kill(int(numbers[1]), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write_weights(
    folder: Path, checkpoint: Checkpoint, weights: dict[str, Weight], progress: Progress
) -> tuple[dict[str, ir.TensorProtocol], str]:
    """Write every parameter once as float32, and say where each lies; also the file's SHA-256.

    The file is itself a safetensors file, which any tool can open; the graphs point into it.
    """
    stored: dict[tuple, str] = {}
    for name, weight in weights.items():
        stored.setdefault(weight.key, name)
    header: dict[str, dict] = {}
    total = 0
    for name in stored.values():
        size = 4 * math.prod(weights[name].shape)
        header[name] = {
            "dtype": "F32",
            "shape": list(weights[name].shape),
            "data_offsets": [total, total + size],
        }
        total += size
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % 64)
    digest, done = hashlib.sha256(), 0
    with (folder / WEIGHTS).open("wb") as file:
        for part in (len(text).to_bytes(8, "little"), text):
            file.write(part)
            digest.update(part)
        for name in stored.values():
            for rows in weights[name].rows(checkpoint):
                data = rows.astype("<f4", copy=False).data
                file.write(data)
                digest.update(data)
                done += data.nbytes
                progress(done, total)
    start = 8 + len(text)
    tensors: dict[str, ir.TensorProtocol] = {
        name: ir.ExternalTensor(
            WEIGHTS,
            start + header[stored[weight.key]]["data_offsets"][0],
            4 * math.prod(weight.shape),
            ir.DataType.FLOAT,
            shape=ir.Shape(weight.shape),
            name=stored[weight.key],
            base_dir=folder,
        )
        for name, weight in weights.items()
    }
    return tensors, digest.hexdigest()


def _write_graph(folder: Path, file: str, graph: Graph, opset: int, inline: bool) -> GraphFile:
    """Write one ONNX file and have onnx's checker pass it."""
    model = graph.model(version("txexport"), opset)
    if inline:
        model = InlinePass()(model).model
        model.opset_imports.pop("txexport", None)
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


def _copy_companions(checkpoint: Checkpoint, folder: Path, reads: bool) -> dict[str, str]:
    """Copy the files that an application needs beside the graphs; their SHA-256 by name.

    For a model that `reads` tokens, a tokenizer.json is made where none is there and one can be.
    """
    names = list(checkpoint.companions())
    for name, path in checkpoint.companions().items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(path, folder / name)
    if reads and TOKENIZER not in names and (made := tokenizer_json(checkpoint.folder)) is not None:
        (folder / TOKENIZER).write_text(made, encoding="utf-8")
        names.append(TOKENIZER)
    names += [_write_dense(folder, path) for path in sorted(checkpoint.folder.glob("[0-9]*_Dense"))]
    return {name: sha256(folder / name) for name in names}


def _write_dense(folder: Path, module: Path) -> str:
    """A dense layer of sentence-transformers as NumPy's arrays; the file's name. Raises CheckpointError."""
    layer, name = Checkpoint(module), f"{module.name}/{bundle.DENSE}"
    if "linear.weight" not in layer.tensors:
        raise CheckpointError(f"{module} has no tensor linear.weight")
    arrays: Any = {tensor.removeprefix("linear."): layer.read(tensor) for tensor in layer.tensors}
    np.savez(folder / name, **arrays)
    return name
