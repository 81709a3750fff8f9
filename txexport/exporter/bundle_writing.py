"""Writes a planned bundle: weights, graphs, companion files and txexport.json."""

import contextlib
import functools
import platform
import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir
from txgraphs import OPSET

from txexport import bundle, families
from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import DataFile, GraphFile, Graphs, Manifest, Source
from txexport.bundle.source import Place, place_of
from txexport.bundle.stages import stages_of
from txexport.checkpoints.checkpoint import Checkpoint, chunks
from txexport.contracts import Port, roles
from txexport.contracts.cache_names import own_past
from txexport.errors import UnsupportedError
from txexport.exporter.bundle_plan import LEAST_RUNTIME, BundlePlan, to_proto
from txexport.exporter.companions import companions
from txexport.exporter.options import resolved_options
from txexport.exporter.staging import placed
from txexport.formats import DTYPES
from txexport.inspection.placement import placement
from txexport.parts import limits
from txexport.spec.serialization import to_dict
from txexport.support.paths import sha256
from txexport.support.progress import Counting, counting
from txexport.tasks import row_of

Item: TypeAlias = str | tuple[str, str]  # one text, or two

SINGLE = 2**31 - 2**24  # bytes of weights that fit one protobuf file together with the graph
# The libraries that write graphs, or tokenizer.json for a checkpoint without one.
LIBRARIES = ("txexport", "onnx", "onnx-ir", "onnxscript", "numpy", "tokenizers", "transformers")


def write_bundle(
    checkpoint: Checkpoint,
    resolved: families.Resolved,
    plan: BundlePlan,
    out: Path,
    place: Place,
    force: bool,
    progress: Counting,
    items: Sequence[Item] | None = None,
) -> Manifest:
    """Write the planned bundle to the folder `out`; `items` calibrate the dtypes that are not calibrated yet.

    `place` is the location of checkpoint and adapter that txexport.json records.
    """
    single_file = plan.options.single_file
    if single_file:
        _check_single(plan)
    with placed(out.resolve(), checkpoint.folder, force) as folder, TemporaryDirectory(dir=folder) as aside:
        done = 0
        if items is not None:
            done = sum(file.numbers for file in plan.data.values())  # calibration counts as a second writing
            plan = _calibrated(checkpoint, resolved, plan, Path(aside), items, progress)
        for graph in plan.graphs:
            (folder / graph.path).parent.mkdir(parents=True, exist_ok=True)
        data = _write_data(plan, folder, progress, done)
        formats = _write_graphs(plan, folder)
        if single_file:
            for name in data:
                (folder / name).unlink()
        manifest = Manifest(
            model_type=resolved.model_type,
            task=resolved.task,
            form=plan.options,
            formats=formats,
            data={} if single_file else data,
            limits=limits(resolved.spec),
            spec=to_dict(resolved.spec),
            source=Source(
                place.path, checkpoint.hashes(), checkpoint.repository, checkpoint.revision, place.adapter
            ),
            companions=_copy_companions(checkpoint, folder, plan),
            versions=versions(),
            promised=resolved.promised,
            stages=stages_of(resolved.spec, plan.options),
        )
        manifest.write(folder / bundle.MANIFEST)
        if row_of(resolved.task, resolved.spec.architecture).methods[0] == "generate":
            _tell_templates(folder)
    return manifest


def _calibrated(
    checkpoint: Checkpoint,
    resolved: families.Resolved,
    plan: BundlePlan,
    aside: Path,
    items: Sequence[Item],
    progress: Counting,
) -> BundlePlan:
    """The plan with calibrated integers, which are kept in the folder `aside`."""
    from txexport.exporter.calibrating import Calibrating

    float32 = write_float32(checkpoint, resolved, aside / "float32")
    left = [
        name
        for name in plan.options.dtypes
        if DTYPES[name].calibrates and name not in plan.options.calibrated
    ]
    calibrating = Calibrating(checkpoint, plan, left, aside)
    total = sum(file.numbers for file in plan.data.values())
    made = calibrating.run(float32, items, lambda share: progress(int(share * total), 2 * total))
    options = replace(plan.options, calibrated=plan.options.calibrated | made)
    before = plan.integers

    def integers(dtype: str, name: str) -> np.ndarray:
        return calibrating.integers(dtype, name) if before is None or dtype in made else before(dtype, name)

    return BundlePlan(checkpoint, resolved, options, integers)


def write_float32(checkpoint: Checkpoint, resolved: families.Resolved, out: Path) -> Path:
    """Write to `out` the float32 bundle that reads the calibration texts."""
    options = resolved_options(
        row_of(resolved.task, resolved.spec.architecture), ExportOptions(None, OPSET, only="hub")
    )
    place = place_of(checkpoint, out, absolute=False)
    write_bundle(
        checkpoint, resolved, BundlePlan(checkpoint, resolved, options), out, place, False, counting(None)
    )
    return out


def _check_single(plan: BundlePlan) -> None:
    """Raise UnsupportedError for weights that no single ONNX file holds."""
    for one in plan.dtypes.values():
        if (size := sum(file.size for file in one.data.values())) > SINGLE:
            raise UnsupportedError(f"weights of {size:,} bytes are too large for a single file of 2 GB")


def versions() -> dict[str, str]:
    """The versions of Python and of the installed libraries that an export uses."""
    return {**_libraries(), "python": platform.python_version()}


@functools.cache
def _libraries() -> dict[str, str]:
    """The installed ones; reading their metadata is slow."""
    result = {}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            result[name] = version(name)
    return result


def _write_data(plan: BundlePlan, folder: Path, progress: Counting, done: int) -> dict[str, DataFile]:
    """Write the files of weights; `progress` receives the bytes done, earlier ones too, and the total."""
    total, written = done + sum(file.numbers for file in plan.data.values()), done
    result = {}
    for path, file in plan.data.items():
        before = written

        def tell(numbers: int, _: int, before: int = before) -> None:
            progress(before + numbers, total)

        result[path] = DataFile(file.size, file.write(folder, tell))
        written += file.numbers
    return result


def _write_graphs(plan: BundlePlan, folder: Path) -> dict[str, Graphs]:
    """Write the ONNX files, by dtype, and run onnx's checker on them."""
    formats = {name: Graphs({}, {}, dict(DTYPES[name].session_options)) for name in plan.options.dtypes}
    for graph, model in plan.models(folder):
        onnx.save(to_proto(model, plan.options.single_file), folder / graph.path)
        onnx.checker.check_model(folder / graph.path, full_check=True)
        inputs, outputs = (
            [_port(value) for value in ports] for ports in (model.graph.inputs, model.graph.outputs)
        )
        digest, least = sha256(folder / graph.path), model.metadata_props[LEAST_RUNTIME]
        written = GraphFile(graph.path, inputs, outputs, digest, least)
        if plan.options.client == roles.CUDA and own_past(port.name for port in inputs):
            captured = placement(folder / graph.path, roles.CUDA).captured
            written = replace(written, captured=captured)
        graphs = formats[graph.dtype]
        (graphs.hub if graph in plan.hub else graphs.native)[graph.role] = written
    return formats


def _port(value: ir.Value) -> Port:
    assert value.name is not None
    assert value.dtype is not None
    assert value.shape is not None
    dims = [dim if isinstance(dim, int) else str(dim.value) for dim in value.shape]
    return Port(value.name, value.dtype.name.lower(), dims)


def _tell_templates(folder: Path) -> None:
    """Warn of chat templates that cannot be used."""
    from txexport.runtime.preprocessing.chat import unusable

    for message in unusable(folder):
        warnings.warn(message, stacklevel=5)


def _copy_companions(checkpoint: Checkpoint, folder: Path, plan: BundlePlan) -> dict[str, str]:
    """Write the companion files of the graphs; return their SHA-256 by name."""
    digests = {}
    for name, content in companions(checkpoint, plan):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            copy.writelines(chunks(content) if isinstance(content, Path) else [content])
        digests[name] = sha256(path)
    return digests
