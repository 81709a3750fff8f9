"""`verify` of a traced bundle: its files, its graph traced again, and cases beside the library's class."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import onnx
import onnx_ir as ir

from txexport import bundle
from txexport.bundle import Manifest, TracedManifest
from txexport.bundle.source import changed, name_of, recorded_at
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.errors import BundleError, CheckpointError, EngineError, InputError
from txexport.runtime.model import load
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
    Reach,
    SkipError,
    TensorCheck,
)
from txexport.verification.identity import first_difference
from txexport.verification.result import Report
from txexport.verification.traced import cases, inputs, steps
from txexport.verification.traced.cases import TracedCase
from txexport.verification.traced.decoders import LIMIT, traced_decoder
from txexport.verification.traced.export import companion_files
from txexport.verification.traced.free_axes import accepts, values_of
from txexport.verification.traced.judging import judged
from txexport.verification.traced.manifests import contradictions, graphs_of
from txexport.verification.traced.named_checks import REFERENCE, NamedCheck, check_arguments, chosen
from txexport.verification.traced.originals import Original, original
from txexport.verification.traced.placeholders import filled
from txexport.verification.traced.sequences import checks_of, is_sequence, traced_sequence
from txexport.verification.traced.tracing import ports, save, traced
from txexport.verification.verify_arguments import VerifyArguments

WRITERS = ("torch", "transformers", "onnx", "onnx-ir", "onnxscript")  # other versions write other graphs


def verify_traced(arguments: VerifyArguments, tell: Naming) -> Report:
    """The report of `verify` for a traced bundle.

    Its files must be those of the export and of the checkpoint, and its graph the one that another trace
    makes, where the libraries' versions are the same. Then every case that the class itself accepts is
    compared in ONNX Runtime, whole outputs; "quick" is the sizes of the trace, without and with ragged rows.
    Raises as `verify`.
    """
    check_arguments(arguments, "a traced bundle")
    folder = Path(arguments.out)
    manifest = bundle.read_any(folder)
    digests = bundle.files_sha256(folder)
    checkpoint = _checkpoint(folder, manifest, arguments.source)
    judge = original(checkpoint.folder, manifest.traced)
    task, notes, device, checks, reach = _opened(folder, manifest, judge, arguments.device)
    selection = arguments.cases if isinstance(arguments.cases, str) else list(arguments.cases)
    contents = _contents(folder, manifest, checkpoint, judge)
    reports = list(_reports(contents, checks, arguments, tell))
    if bundle.files_sha256(folder) != digests:
        raise BundleError(f"{folder} was changed while it was verified; verify it again")
    _checkpoint(folder, manifest, arguments.source)  # it may have been changed, too
    return Report(
        bundle=str(folder),
        model_type=manifest.model_type,
        task=task,
        runtime=f"{RUNTIME} {device}",
        versions=environment.versions(),
        cases=reports,
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        bundle_sha256=digests,
        selection=selection,
        source=None if arguments.source is None else str(arguments.source),
        device=device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        notes=notes,
        checkpoint=f"{name_of(checkpoint)} ({manifest.source.digest})",
        graphs={graph.file: NATIVE for graph in manifest.every_graph},
        reach=reach,
    )


def _checkpoint(folder: Path, manifest: Manifest | TracedManifest, source: str | Path | None) -> Checkpoint:
    """The checkpoint, with the files that were exported. Raises CheckpointError."""
    checkpoint = recorded_at(folder, manifest.source, source)
    if different := changed(checkpoint, manifest.source):
        raise CheckpointError(
            f"{checkpoint.folder} is not the exported checkpoint: {', '.join(different[:3])} differ; "
            "give the exported one with --source"
        )
    return checkpoint


class Opened(NamedTuple):
    """A bundle's graph in a session: its task, limits in words, device, cases, and their largest sizes."""

    task: str
    notes: list[str]
    device: str
    checks: "dict[str, NamedCheck]"
    reach: Reach


def _opened(folder: Path, manifest: Manifest | TracedManifest, judge: Original, device: str | None) -> Opened:
    """The cases of a bundle of either kind, and their names by what runs them."""
    if isinstance(manifest, TracedManifest):
        traced_model = load_traced(folder, device=device, check=False)
        checks, reach = _one_pass(manifest, judge, traced_model)
        return Opened(manifest.architecture, manifest.limited, traced_model.device, checks, reach)
    model = load(folder, device=device, check=False)
    reads_source = is_sequence(judge)
    quick = steps.QUICK_WITH_SOURCE if reads_source else steps.QUICK
    checks = {name: NamedCheck(run, name in quick) for name, run in checks_of(judge, model).items()}
    every = (steps.plan_with_source if reads_source else steps.plan)(judge)
    tokens = max(case.tokens for case in every), manifest.limits[LIMIT]
    reach = {"rows": (max(case.rows for case in every), None), "tokens": tokens}
    return Opened(manifest.task, [], model.device, checks, reach)


def _contents(
    folder: Path, manifest: Manifest | TracedManifest, checkpoint: Checkpoint, judge: Original
) -> dict[str, NamedCheck]:
    """The checks of a bundle's files and graph."""
    return {
        COPIED_FILES: NamedCheck(partial(_check_files, folder, manifest, checkpoint, judge)),
        IDENTITY: NamedCheck(partial(_check_graph, folder, manifest, judge)),
    }


def _one_pass(
    manifest: TracedManifest, judge: Original, model: TracedModel
) -> tuple[dict[str, NamedCheck], Reach]:
    """The cases of one pass, over the free axes, at sizes that the class accepts; and their largest sizes."""
    layout, sizes = manifest.axes, manifest.sizes
    tried = [case for case in cases.trials(judge, layout, sizes) if case.axis in manifest.varied]
    accepted = [case for case in tried if accepts(judge, layout, sizes, case)]
    planned = cases.plan(judge, layout, sizes, [case for case in accepted if manifest.takes(case.changed)])
    checks = {
        case.name: NamedCheck(partial(_judged, judge, model, manifest, case), case.axis is None)
        for case in planned
    }
    of_reach = {"rows": inputs.BATCH, "tokens": inputs.SEQUENCE}
    reach = {
        name: (max(case.changed.get(axis, sizes[axis]) for case in planned), manifest.most.get(axis))
        for name, axis in of_reach.items()
        if axis in sizes
    }
    for case in accepted:
        if not manifest.takes(case.changed):  # below the least size
            checks[f"{case.name} differs"] = NamedCheck(partial(_differs, judge, model, manifest, case))
    return checks, reach


def _judged(
    judge: Original, model: TracedModel, manifest: TracedManifest, case: TracedCase
) -> list[TensorCheck]:
    return judged(judge, model, values_of(judge, manifest.axes, manifest.sizes, case))


def _differs(
    judge: Original, model: TracedModel, manifest: TracedManifest, case: TracedCase
) -> list[TensorCheck]:
    """A size below the least one is excluded for a reason: the graph differs there, or does not run."""
    free = TracedModel(model.folder, replace(manifest, least={}, limits={}), model.device, model.session)
    try:
        is_right = all(check.ok for check in _judged(judge, free, manifest, case))
    except (AssertionError, EngineError, InputError):
        is_right = False
    if is_right:
        raise AssertionError("the graph is right at a size that the bundle refuses")
    return [TensorCheck("least size", 1, 0.0, 0.0)]


def _reports(
    contents: dict[str, NamedCheck],
    checks: dict[str, NamedCheck],
    arguments: VerifyArguments,
    tell: Naming,
) -> Iterator[CaseReport]:
    """The reports of the bundle's contents, then of every case that is selected."""
    for name, check in chosen(contents | checks, arguments):
        tell(name)
        reference, runtime = (CHECKPOINT, None) if name in contents else (REFERENCE, RUNTIME)
        yield attempt(name, reference, check.run, runtime)


def _check_files(
    folder: Path, manifest: Manifest | TracedManifest, checkpoint: Checkpoint, judge: Original
) -> list[TensorCheck]:
    """Every file is the exported one, each copy is the checkpoint's, and the manifest says what is true."""
    bundle.check(folder, manifest)
    for name, data in manifest.data.items():
        if sha256(folder / name) != data.sha256:
            raise AssertionError(f"{name} is not the file that was exported")
    files = companion_files(checkpoint, judge.config.model_type)
    if files.keys() != manifest.companions.keys():
        raise AssertionError(f"files are {', '.join(manifest.companions)}, expected {', '.join(files)}")
    for name, content in files.items():
        digest = sha256(content) if isinstance(content, Path) else hashlib.sha256(content).hexdigest()
        if digest != manifest.companions[name]:
            raise AssertionError(f"{name} is not the checkpoint's")
    read = {graph.file: ports(ir.load(folder / graph.file)) for graph in manifest.every_graph}
    wrong = next(contradictions(manifest, judge, read), None)
    if wrong is not None:
        raise AssertionError(wrong)
    return [TensorCheck(name, 1, 0.0, 0.0) for name in manifest.files]


def _check_graph(folder: Path, manifest: Manifest | TracedManifest, judge: Original) -> list[TensorCheck]:
    """The graph and its weights are those of another trace. Raises SkipError for other versions."""
    here = environment.of(WRITERS)
    if other := [name for name in WRITERS if manifest.versions.get(name) != here.get(name)]:
        raise SkipError(f"traced with another {' and '.join(other)}: compared by cases alone")
    if isinstance(manifest, TracedManifest):
        values = filled(judge, manifest.axes, manifest.sizes, 0, False)
        remade = {roles.MODEL: traced(judge, manifest.axes, values, manifest.varied, manifest.opset)}
    elif is_sequence(judge):
        remade = traced_sequence(judge, manifest.form.opset)
    else:
        remade = {roles.MODEL: traced_decoder(judge, manifest.form.opset)}
    graphs = graphs_of(manifest)
    with TemporaryDirectory() as aside:
        for role, model in remade.items():
            _compare(graphs[role].file, folder, Path(aside), save(model, Path(aside) / graphs[role].file))
    return [
        TensorCheck(name, 1, 0.0, 0.0) for name in (*(one.file for one in graphs.values()), *manifest.data)
    ]


def _compare(name: str, folder: Path, aside: Path, data: Path) -> None:
    """Raise AssertionError if a graph, or its weights, are not those that were traced again."""
    path, file = aside / name, folder / name
    if sha256(path) != sha256(file):
        load = partial(onnx.load, load_external_data=False)
        raise AssertionError(
            f"{name} is not the traced graph: first difference {first_difference(load(file), load(path))}"
        )
    if data.exists() and sha256(data) != sha256(folder / roles.data_path(name)):
        raise AssertionError(f"{roles.data_path(name)} has other weights than the checkpoint")
