"""Checks of a bundle's files against its checkpoint, without running a model."""

import io
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import onnx
from onnx.external_data_helper import ExternalDataInfo

from txexport import bundle
from txexport.bundle.manifest import MANIFEST, GraphFile, Manifest
from txexport.bundle.proof import ANSWERS
from txexport.bundle.stages import stages_of
from txexport.checkpoints.checkpoint import Checkpoint, read_header
from txexport.checkpoints.tokenizer_conversion import TOKENIZER
from txexport.exporter.bundle_plan import BundlePlan, PlannedGraph
from txexport.exporter.bundle_writing import versions
from txexport.exporter.companions import companions
from txexport.exporter.weight_file import WeightFile
from txexport.families import Resolved
from txexport.formats import decoded
from txexport.inspection.graph_stats import initializers, ports
from txexport.parts import limits
from txexport.spec import ModelSpec
from txexport.spec.serialization import from_dict
from txexport.support.paths import sha256, stays_inside
from txexport.verification.calibrated import plan_of
from txexport.verification.checks import COPIED_FILES, EVERY_WEIGHT, IDENTITY, TensorCheck, check_of
from txexport.verification.identity import check_graphs


@dataclass
class _WeightChecks:
    """The checks of weights so far, and the checked ranges of files."""

    checks: list[TensorCheck] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)  # parts whose bytes differ
    covered: set[tuple[str, str, int]] = field(default_factory=set)  # part, file, offset


def check_weights(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> list[TensorCheck]:
    """Compare every number of the weights files, and of those that a graph holds, with the checkpoint.

    Numbers and bytes must be those that export writes; calibrated integers must be among those that it may
    write. Cases cannot prove this, since they read few rows of a large table.
    """
    plan = plan_of(folder, checkpoint, resolved, manifest.form)
    result = _WeightChecks()
    for path, expected in {} if manifest.form.single_file else plan.data.items():
        _check_file(folder, path, expected, result)
    used: set[tuple[str, str]] = set()  # by the graphs: file and part
    for planned, graph in _graphs(plan, manifest):
        files = plan.dtypes[planned.dtype].data.values()
        for tensor, expected, name in _initializers(folder / graph.file, files, manifest.form.single_file):
            used |= {(file.path, name) for file in files if name in file.parts}
            _check_initializer(folder, manifest, graph, (tensor, expected, name), result)
    missing = [name for file in plan.data.values() for name in file.parts if (file.path, name) not in used]
    if missing:
        raise AssertionError(f"no graph holds {', '.join(missing)}")
    if result.differing and all(check.ok for check in result.checks):
        raise AssertionError(f"the bytes of {result.differing[0]} are not those that export writes")
    return result.checks


def _check_file(folder: Path, path: str, expected: WeightFile, result: _WeightChecks) -> None:
    """Check every parameter of a weights file, and the rounding of those that a format rounds."""
    with (folder / path).open("rb") as file:
        _check_header(folder, file.read(len(expected.header)), expected)
        for parameter in dict.fromkeys(expected.stored.values()):
            names = [*expected.names(parameter).values()]
            encoded = expected.blocks(parameter)
            if not expected.formats[parameter].lossless:
                encoded = iter(blocks := [*encoded])  # encoded once for two checks
                result.checks.append(_rounding(expected, parameter, blocks))
            pairs = _pairs(file, expected.offsets, encoded, result.differing)
            result.checks.append(check_of(parameter, pairs, 0.0))
            result.covered |= {(name, path, expected.offsets[name]) for name in names}


def _check_initializer(
    folder: Path,
    manifest: Manifest,
    graph: GraphFile,
    initializer: tuple[onnx.TensorProto, WeightFile, str],
    result: _WeightChecks,
) -> None:
    """Check the numbers that a graph holds or points to, unless they are already checked."""
    tensor, expected, name = initializer
    blocks = (part for part in expected.blocks(expected.owners[name]) if part[0] == name)
    if manifest.form.single_file:
        held = io.BytesIO(tensor.raw_data)
        result.checks.append(check_of(tensor.name, _pairs(held, {name: 0}, blocks, result.differing), 0.0))
        return
    pointer = ExternalDataInfo(tensor)
    path = (PurePosixPath(graph.file).parent / pointer.location).as_posix()
    if not stays_inside(path):
        raise AssertionError(f"{graph.file}: {tensor.name} lies outside the bundle, in {pointer.location}")
    offset = pointer.offset or 0
    if (name, path, offset) not in result.covered:
        result.covered.add((name, path, offset))
        with (folder / path).open("rb") as file:
            pairs = _pairs(file, {name: offset}, blocks, result.differing)
            result.checks.append(check_of(tensor.name, pairs, 0.0))


def _rounding(expected: WeightFile, parameter: str, encoded: Iterable[tuple[str, np.ndarray]]) -> TensorCheck:
    """Check the rounding of a parameter by a rule that is independent of the encoder.

    A wrong encoder would write the same wrong bytes again.
    """
    number_format = expected.encoders[parameter]
    parts = {name: part for part, name in expected.names(parameter).items()}
    numbers = np.concatenate([*expected.weights[parameter].rows(expected.checkpoint)])
    rounded = decoded(number_format, ((parts[name], block) for name, block in encoded), numbers.shape)
    return TensorCheck(f"{parameter}: rounding", numbers.size, number_format.share(numbers, rounded), 1.0)


def _graphs(plan: BundlePlan, manifest: Manifest) -> Iterator[tuple[PlannedGraph, GraphFile]]:
    """The planned graphs, each with its entry in txexport.json."""
    for planned in plan.graphs:
        graphs = manifest.formats[planned.dtype]
        yield planned, (graphs.hub if planned in plan.hub else graphs.native)[planned.role]


def _check_header(folder: Path, header: bytes, expected: WeightFile) -> None:
    """Raise AssertionError unless the file has the expected header and size."""
    if header != expected.header:
        known = expected.offsets
        offsets = {name: tensor.offset for name, tensor in read_header(folder / expected.path).items()}
        wrong = [name for name in known | offsets if known.get(name) != offsets.get(name)]
        message = f": {wrong[0]} does not lie where it should" if wrong else ""
        raise AssertionError(f"{expected.path}: its header is not the one that export writes{message}")
    size = (folder / expected.path).stat().st_size
    if size != expected.size:
        raise AssertionError(f"{expected.path} is {size:,} bytes, expected {expected.size:,}")


def _pairs(
    file: BinaryIO,
    offsets: Mapping[str, int],
    blocks: Iterable[tuple[str, np.ndarray]],
    differing: list[str],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs of a file's numbers and the expected ones; parts with other bytes are added to `differing`."""
    ends = dict(offsets)  # of the bytes read of each part
    for name, block in blocks:
        file.seek(ends[name])
        ends[name] += block.nbytes
        found = np.frombuffer(file.read(block.nbytes), np.uint8)
        complete = found.size - found.size % block.itemsize
        found = found[:complete].view(block.dtype)
        if found.tobytes() != block.tobytes():
            differing.append(name)
        yield found.reshape(block.shape) if found.size == block.size else found, block


def _initializers(
    path: Path, files: Iterable[WeightFile], inside: bool
) -> Iterator[tuple[onnx.TensorProto, WeightFile, str]]:
    """The weights that a graph uses: tensor, weights file, and part of the file.

    The numbers are within the graph if `inside`, else in a file. Raises AssertionError for other
    initialisers, and for unused ones.
    """
    proto = onnx.load(path, load_external_data=False)
    consumed = set(_read(proto.graph.node))
    for tensor in initializers(proto.graph):
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if not external and tensor.data_type == onnx.TensorProto.INT64:
            continue
        if external == inside:
            where = "outside of it" if external else "of its own"
            raise AssertionError(f"{path.name} holds weights {where}: {tensor.name}")
        if tensor.name not in consumed:
            raise AssertionError(f"{path.name} does not use {tensor.name}")
        parts = ((file, name) for file in files if (name := file.part_of(tensor.name)) is not None)
        file, name = next(parts, (None, ""))
        if file is None:
            raise AssertionError(f"{path.name} points to {tensor.name}, which is no weight")
        part = file.parts[name]
        kind = onnx.TensorProto.DataType.Name(tensor.data_type)
        if (kind, tuple(tensor.dims)) != (part.type.onnx, part.shape):
            raise AssertionError(
                f"{tensor.name} is {kind} {tuple(tensor.dims)}, expected {part.type.onnx} {part.shape}"
            )
        yield tensor, file, name


def _read(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The names of all inputs of nodes, branches included."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)


def check_manifest(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> list[TensorCheck]:
    """Raise AssertionError if txexport.json, graphs, copied files and checkpoint contradict each other."""
    for message in _contradictions(folder, manifest, checkpoint, resolved):
        raise AssertionError(message)
    return [TensorCheck(MANIFEST, 1, 0.0, 0.0)]


def _contradictions(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> Iterator[str]:
    if from_dict(ModelSpec, manifest.spec) != resolved.spec:
        yield "txexport.json: spec is not that of the checkpoint"
    if (manifest.model_type, manifest.task) != (resolved.model_type, resolved.task):
        yield "txexport.json: model_type or task is not that of the checkpoint"
    if (manifest.cache is None) == resolved.spec.generates:
        yield f"txexport.json: cache is {manifest.cache}, which this task has not"
    plan = BundlePlan(checkpoint, resolved, manifest.form)
    expected = [] if manifest.form.single_file else [*plan.data]
    if [*manifest.data] != expected:
        yield f"txexport.json: data are {', '.join(manifest.data)}, expected {', '.join(expected)}"
    for dtype, calibration in manifest.form.calibrated.items():
        known = {first for first, _ in plan.dtypes[dtype].int4.values()}
        if unknown := [name for name in calibration.searched if name not in known]:
            yield f"txexport.json: {unknown[0]} is not searched in {dtype}, which has no such matrix"
    for path, data in manifest.data.items():
        if sha256(folder / path) != data.sha256:
            yield f"{path} is not the file that was exported"
        if (folder / path).stat().st_size != data.bytes:
            yield f"txexport.json: bytes of {path} are {data.bytes:,}, which it has not"
    if manifest.limits != limits(resolved.spec):
        yield f"txexport.json: limits are {manifest.limits}, expected {limits(resolved.spec)}"
    if manifest.stages != (stages := stages_of(resolved.spec, manifest.form)):
        wrong = next(kind for kind in stages if manifest.stages[kind] != stages[kind])
        yield f"txexport.json: stages of {wrong} graphs are not those of the checkpoint's architecture"
    if manifest.promised not in ({}, resolved.promised):  # older bundles lack it
        yield f"txexport.json: promised is {manifest.promised}, expected {resolved.promised}"
    for graph in manifest.every_graph:
        proto = onnx.load(folder / graph.file, load_external_data=False)
        if graph.inputs != ports(proto.graph.input):
            yield f"txexport.json: inputs of {graph.file} are not those of the graph"
        if graph.outputs != ports(proto.graph.output):
            yield f"txexport.json: outputs of {graph.file} are not those of the graph"
    yield from _strays(folder, manifest)
    yield from _wrong_companions(folder, manifest, checkpoint, plan)


def _strays(folder: Path, manifest: Manifest) -> Iterator[str]:
    """Files of the folder that the manifest does not list, and listed files that are missing."""
    present = bundle.present(folder)
    for name in present:
        if name not in manifest.files and name != ANSWERS:  # whose recording may have been interrupted
            yield f"{name} is in the folder, and no export wrote it"
    for name in manifest.files:
        if name not in present and name != ANSWERS:  # which a verification writes anew
            yield f"{name} is missing"


def _wrong_companions(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, plan: BundlePlan
) -> Iterator[str]:
    """Files beside the graphs that export would not write now."""
    with warnings.catch_warnings(action="ignore"):  # export has warned of files that it cannot write
        expected = dict(companions(checkpoint, plan))
    converted = isinstance(expected.get(TOKENIZER), bytes)
    if converted and TOKENIZER not in manifest.companions and "transformers" not in manifest.versions:
        del expected[TOKENIZER]  # export had no library to convert it
    for name, content in expected.items():
        if name not in manifest.companions:
            yield f"txexport.json: {name} is not listed, though export writes it"
            continue
        copy = folder / name
        if isinstance(content, Path):
            if not copy.is_file() or sha256(copy) != sha256(content):
                yield f"{name} is not the checkpoint's"
        elif not copy.is_file() or not _same(name, copy.read_bytes(), content, manifest):
            yield f"{name} is not the file that export makes of the checkpoint"
    for name, digest in manifest.companions.items():
        if name not in expected:
            lacking = " (transformers is not installed)" * (find_spec("transformers") is None)
            again = f", and cannot be made of it here{lacking}" * (name == TOKENIZER)
            yield f"{name} is not the checkpoint's{again}"
        elif sha256(folder / name) != digest:
            yield f"txexport.json: sha256 of {name} is not that of the file"


def _same(name: str, found: bytes, expected: bytes, manifest: Manifest) -> bool:
    """True if a file is what export writes; other library versions may write a tokenizer differently."""
    if found == expected or name != TOKENIZER:
        return found == expected
    here = versions()
    if all(manifest.versions.get(library) == here.get(library) for library in ("tokenizers", "transformers")):
        return False
    try:
        # Unlike ==, the text tells true, 1 and 1.0 apart.
        return json.dumps(json.loads(found)) == json.dumps(json.loads(expected))
    except ValueError:
        return False


CHECKS = {
    IDENTITY: check_graphs,
    EVERY_WEIGHT: check_weights,
    COPIED_FILES: check_manifest,
}
