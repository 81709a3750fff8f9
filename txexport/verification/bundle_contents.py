"""What lies in a bundle against what its checkpoint says it must hold: no model is run."""

import io
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import BinaryIO

import numpy as np
import onnx
from onnx.external_data_helper import ExternalDataInfo

from txexport import bundle
from txexport.bundle.manifest import MANIFEST, GraphFile, Manifest
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


def check_weights(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> list[TensorCheck]:
    """Every number of the weights files, and of what a graph holds or points to, against the checkpoint.

    They must be equal, and all bytes those that export writes; of calibrated integers those that it may.
    Cases of tokens read few rows of a large table, so they cannot prove the others.
    """
    plan = plan_of(folder, checkpoint, resolved, manifest.form)
    unlike: list[str] = []
    checks: list[TensorCheck] = []
    checked = set()
    for path, expected in {} if manifest.form.single_file else plan.data.items():
        with (folder / path).open("rb") as file:
            _check_header(folder, file.read(len(expected.header)), expected)
            for parameter in dict.fromkeys(expected.stored.values()):
                names = [*expected.names(parameter).values()]
                encoded = expected.blocks(parameter)
                if not expected.formats[parameter].lossless:
                    encoded = iter(whole := [*encoded])  # both checks read it, and it is made once
                    checks.append(_rounding(expected, parameter, whole))
                pairs = _pairs(file, expected.offsets, encoded, unlike)
                checks.append(check_of(parameter, pairs, 0.0))
                checked |= {(name, path, expected.offsets[name]) for name in names}
    held = set()
    for planned, graph in _graphs(plan, manifest):
        files = plan.dtypes[planned.dtype].data.values()
        for tensor, expected, name in _initializers(folder / graph.file, files, manifest.form.single_file):
            held |= {(file.path, name) for file in files if name in file.parts}
            owner = expected.owners[name]
            blocks = (part for part in expected.blocks(owner) if part[0] == name)
            if manifest.form.single_file:
                inside = io.BytesIO(tensor.raw_data)
                checks.append(check_of(tensor.name, _pairs(inside, {name: 0}, blocks, unlike), 0.0))
                continue
            place = ExternalDataInfo(tensor)
            path = (PurePosixPath(graph.file).parent / place.location).as_posix()
            if not stays_inside(path):
                raise AssertionError(
                    f"{graph.file}: {tensor.name} lies outside the bundle, in {place.location}"
                )
            key = (name, path, place.offset or 0)
            if key not in checked:
                checked.add(key)
                with (folder / path).open("rb") as file:
                    pairs = _pairs(file, {name: place.offset or 0}, blocks, unlike)
                    checks.append(check_of(tensor.name, pairs, 0.0))
    missing = [name for file in plan.data.values() for name in file.parts if (file.path, name) not in held]
    if missing:
        raise AssertionError(f"no graph holds {', '.join(missing)}")
    if unlike and all(check.ok for check in checks):
        raise AssertionError(f"the bytes of {unlike[0]} are not those that export writes")
    return checks


def _rounding(expected: WeightFile, parameter: str, encoded: Iterable[tuple[str, np.ndarray]]) -> TensorCheck:
    """What a format keeps of a parameter beside the checkpoint's numbers, by a rule that knows no bytes.

    An export that rounded wrongly would be made again as wrongly.
    """
    number_format = expected.encoders[parameter]
    parts = {name: part for part, name in expected.names(parameter).items()}
    numbers = np.concatenate([*expected.weights[parameter].rows(expected.checkpoint)])
    own = decoded(number_format, ((parts[name], block) for name, block in encoded), numbers.shape)
    return TensorCheck(f"{parameter}: rounding", numbers.size, number_format.share(numbers, own), 1.0)


def _graphs(plan: BundlePlan, manifest: Manifest) -> Iterator[tuple[PlannedGraph, GraphFile]]:
    """The graphs that txexport.json lists, and what they are to be."""
    for planned in plan.graphs:
        graphs = manifest.formats[planned.dtype]
        yield planned, (graphs.hub if planned in plan.hub else graphs.native)[planned.role]


def _check_header(folder: Path, header: bytes, expected: WeightFile) -> None:
    """Raise AssertionError unless the file begins as it should, and is as long."""
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
    unlike: list[str],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The numbers of parts that lie in a file and those that should; `unlike` is told of other bytes."""
    ends = dict(offsets)  # of what is read of each part
    for name, block in blocks:
        file.seek(ends[name])
        ends[name] += block.nbytes
        found = np.frombuffer(file.read(block.nbytes), np.uint8)
        whole = found.size - found.size % block.itemsize
        found = found[:whole].view(block.dtype)
        if found.tobytes() != block.tobytes():
            unlike.append(name)
        yield found.reshape(block.shape) if found.size == block.size else found, block


def _initializers(
    path: Path, files: Iterable[WeightFile], inside: bool
) -> Iterator[tuple[onnx.TensorProto, WeightFile, str]]:
    """The weights that a graph uses, within it or `inside` no file of its own; of which file, and what there.

    Raises AssertionError for any but weights, and for one that is not used.
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
        found = ((file, name) for file in files if (name := file.part_of(tensor.name)) is not None)
        file, name = next(found, (None, ""))
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
    """The names of what nodes read, and those in their branches."""
    for node in nodes:
        yield from node.input
        for attribute in node.attribute:
            yield from _read(attribute.g.node)


def check_manifest(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, resolved: Resolved
) -> list[TensorCheck]:
    """Raise AssertionError where txexport.json, the graphs, the copied files and the checkpoint disagree."""
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
        if strange := [name for name in calibration.searched if name not in known]:
            yield f"txexport.json: {strange[0]} is not searched in {dtype}, which has no such matrix"
    for path, data in manifest.data.items():
        if sha256(folder / path) != data.sha256:
            yield f"{path} is not the file that was exported"
        if (folder / path).stat().st_size != data.bytes:
            yield f"txexport.json: bytes of {path} are {data.bytes:,}, which it has not"
    if manifest.limits != limits(resolved.spec):
        yield f"txexport.json: limits are {manifest.limits}, expected {limits(resolved.spec)}"
    if manifest.promised not in ({}, resolved.promised):  # older bundles do not say it
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
    """Files of the folder that are not the bundle's, and the other way round."""
    present = bundle.present(folder)
    for name in present:
        if name not in manifest.files:
            yield f"{name} is in the folder, and no export wrote it"
    for name in manifest.files:
        if name not in present:
            yield f"{name} is missing"


def _wrong_companions(
    folder: Path, manifest: Manifest, checkpoint: Checkpoint, plan: BundlePlan
) -> Iterator[str]:
    """Files that are not those that export would put beside the graphs now."""
    with warnings.catch_warnings(action="ignore"):  # export has told what it could not make
        expected = dict(companions(checkpoint, plan))
    made = isinstance(expected.get(TOKENIZER), bytes)
    if made and TOKENIZER not in manifest.companions and "transformers" not in manifest.versions:
        del expected[TOKENIZER]  # export did not have what makes it
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


def _same(name: str, found: bytes, made: bytes, manifest: Manifest) -> bool:
    """Whether a made file is what export makes; other versions may write a tokenizer in another way."""
    if found == made or name != TOKENIZER:
        return found == made
    here = versions()
    if all(manifest.versions.get(library) == here.get(library) for library in ("tokenizers", "transformers")):
        return False
    try:
        return json.dumps(json.loads(found)) == json.dumps(json.loads(made))  # true is not 1 there, nor 1.0
    except ValueError:
        return False


CHECKS = {
    IDENTITY: check_graphs,
    EVERY_WEIGHT: check_weights,
    COPIED_FILES: check_manifest,
}
