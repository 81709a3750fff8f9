"""`verify` of a traced bundle: its files, its graph traced again, and cases beside the library's class."""

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx

from txexport import bundle
from txexport.bundle import TracedManifest
from txexport.bundle.source import changed, name_of, recorded_at
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import BundleError, CheckpointError, InputError
from txexport.runtime.traced_model import TracedModel, load_traced
from txexport.support.paths import sha256
from txexport.support.progress import Naming
from txexport.verification import environment
from txexport.verification.attempt import attempt
from txexport.verification.checks import (
    CHECKPOINT,
    COPIED_FILES,
    IDENTITY,
    NATIVE,
    RUNTIME,
    CaseReport,
    SkipError,
    TensorCheck,
)
from txexport.verification.identity import first_difference
from txexport.verification.result import Report
from txexport.verification.traced import cases, inputs
from txexport.verification.traced.cases import TracedCase
from txexport.verification.traced.inputs import Layout
from txexport.verification.traced.judging import judged
from txexport.verification.traced.originals import Original, original
from txexport.verification.traced.settling import accepts, values_of
from txexport.verification.traced.tracing import save, traced
from txexport.verification.verify_arguments import VerifyArguments

WRITERS = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript")  # other versions write other graphs
REFERENCE = "transformers"


NOT_TAKEN = ("adapter", "layers", "texts", "torch_onnx", "allow_edited", "client", "budget")


def verify_traced(arguments: VerifyArguments, tell: Naming) -> Report:
    """The report of `verify` for a traced bundle.

    Its files must be those of the export and of the checkpoint, and its graph the one that another trace
    makes, where the libraries' versions are the same. Then every case that the class itself accepts is
    compared in ONNX Runtime, whole outputs; "quick" is the sizes of the trace, without and with ragged rows.
    Raises as `verify`.
    """
    _check_arguments(arguments)
    folder = Path(arguments.out)
    manifest = bundle.read_traced(folder)
    digests = bundle.files_sha256(folder)
    checkpoint = _checkpoint(folder, manifest, arguments.source)
    judge = original(checkpoint.folder, manifest.architecture)
    model = load_traced(folder, device=arguments.device, check=False)
    selection = arguments.cases if isinstance(arguments.cases, str) else list(arguments.cases)
    reports = list(_reports(folder, manifest, checkpoint, judge, model, selection, tell))
    if not reports:
        raise InputError(f"no case is named {', '.join(selection)}")
    if bundle.files_sha256(folder) != digests:
        raise BundleError(f"{folder} was changed while it was verified; verify it again")
    return Report(
        bundle=str(folder),
        model_type=manifest.model_type,
        task=manifest.architecture,
        runtime=f"{RUNTIME} {model.device}",
        versions=environment.versions(),
        cases=reports,
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        bundle_sha256=digests,
        selection=selection,
        source=None if arguments.source is None else str(arguments.source),
        device=model.device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=manifest.limited,
        checkpoint=f"{name_of(checkpoint)} ({manifest.source.digest})",
        graphs={manifest.graph.file: NATIVE},
    )


def _check_arguments(arguments: VerifyArguments) -> None:
    """Raise InputError for arguments that a traced bundle has no use for."""
    refused = [name for name in NOT_TAKEN if getattr(arguments, name)]
    if arguments.reference not in (None, REFERENCE):
        refused.append("reference")
    if arguments.runtime not in (RUNTIME, [RUNTIME], (RUNTIME,)):
        refused.append("runtime")
    if refused:
        raise InputError(
            f"{', '.join(refused)} cannot be given for a traced bundle, which is compared with transformers "
            "in ONNX Runtime"
        )


def _checkpoint(folder: Path, manifest: TracedManifest, source: str | Path | None) -> Checkpoint:
    """The checkpoint, with the files that were exported. Raises CheckpointError."""
    checkpoint = recorded_at(folder, manifest.source, source)
    if different := changed(checkpoint, manifest.source):
        raise CheckpointError(
            f"{checkpoint.folder} is not the exported checkpoint: {', '.join(different[:3])} differ; "
            "give the exported one with --source"
        )
    return checkpoint


def _reports(
    folder: Path,
    manifest: TracedManifest,
    checkpoint: Checkpoint,
    judge: Original,
    model: TracedModel,
    selection: str | list[str],
    tell: Naming,
) -> Iterator[CaseReport]:
    """The reports of the bundle's contents, then of every case."""
    chosen = None if isinstance(selection, str) else set(selection)
    contents = {
        COPIED_FILES: partial(_check_files, folder, manifest, checkpoint),
        IDENTITY: partial(_check_graph, folder, manifest, judge),
    }
    for name, check in contents.items():
        if chosen is None or name in chosen:
            tell(name)
            yield attempt(name, CHECKPOINT, check)
    layout = {name: tuple(axes) for name, axes in manifest.layout.items()}
    for case in _planned(judge, layout, manifest):
        if (chosen is None and (selection == "full" or case.axis is None)) or (
            chosen and case.name in chosen
        ):
            tell(case.name)
            run = partial(judged, judge, model, values_of(judge, layout, manifest.sizes, case))
            yield attempt(case.name, REFERENCE, run, RUNTIME)


def _planned(judge: Original, layout: Layout, manifest: TracedManifest) -> list[TracedCase]:
    """The cases over the axes that are free, at sizes that the class accepts."""
    tried = cases.trials(judge, layout, manifest.sizes)
    free = [case for case in tried if case.axis in manifest.varied and manifest.takes(case.changed)]
    accepted = [case for case in free if accepts(judge, layout, manifest.sizes, case)]
    return cases.plan(judge, layout, manifest.sizes, accepted)


def _check_files(folder: Path, manifest: TracedManifest, checkpoint: Checkpoint) -> list[TensorCheck]:
    """Every listed file is the exported one, each copy is the checkpoint's, and no other would be read."""
    bundle.check(folder, manifest)
    for name, data in manifest.data.items():
        if sha256(folder / name) != data.sha256:
            raise AssertionError(f"{name} is not the file that was exported")
    copies = {name: path for name, path in checkpoint.companions().items() if isinstance(path, Path)}
    if copies.keys() != manifest.companions.keys():
        raise AssertionError(f"files are {', '.join(manifest.companions)}, expected {', '.join(copies)}")
    for name, path in copies.items():
        if sha256(path) != manifest.companions[name]:
            raise AssertionError(f"{name} is not the checkpoint's")
    return [TensorCheck(name, 1, 0.0, 0.0) for name in manifest.files]


def _check_graph(folder: Path, manifest: TracedManifest, judge: Original) -> list[TensorCheck]:
    """The graph and its weights are those of another trace. Raises SkipError for other versions."""
    here = environment.of(WRITERS)
    if other := [name for name in WRITERS if manifest.versions.get(name) != here.get(name)]:
        raise SkipError(f"traced with another {' and '.join(other)}: compared by cases alone")
    layout = {name: tuple(axes) for name, axes in manifest.layout.items()}
    values = inputs.fill(layout, manifest.sizes, judge.facts, 0, False)
    with TemporaryDirectory() as aside:
        path = Path(aside) / manifest.graph.file
        data = save(traced(judge, layout, values, manifest.varied, manifest.opset), path)
        file = folder / manifest.graph.file
        if sha256(path) != sha256(file):
            load = partial(onnx.load, load_external_data=False)
            difference = first_difference(load(file), load(path))
            raise AssertionError(
                f"{manifest.graph.file} is not the traced graph: first difference {difference}"
            )
        for name in manifest.data:
            if sha256(data) != sha256(folder / name):
                raise AssertionError(f"{name} has other weights than the checkpoint")
    return [TensorCheck(name, 1, 0.0, 0.0) for name in (manifest.graph.file, *manifest.data)]
