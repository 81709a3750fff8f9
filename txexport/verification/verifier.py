"""`verify`: plan the cases that apply to a bundle, run them, and report."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from txexport import bundle
from txexport.bundle.proof import ANSWERS
from txexport.bundle.source import is_listed_whole, name_of
from txexport.errors import BundleError, crashes
from txexport.support.arguments import arguments_from
from txexport.support.progress import Naming, Numbered, naming
from txexport.verification import calibrated, environment, runtimes
from txexport.verification.attempt import attempt
from txexport.verification.checks import ALL_CASES, CHECKPOINT, RUNTIME, CaseReport, Reach
from txexport.verification.exports import is_export, verify_export
from txexport.verification.layers.result import joined
from txexport.verification.process_state import undisturbed
from txexport.verification.proof import record
from txexport.verification.result import Report
from txexport.verification.traced import verify_traced
from txexport.verification.verify_arguments import VerifyArguments
from txexport.verification.verify_plan import VerifyPlan, checkpoint_of, independent, plan_of
from txexport.verification.verify_run import VerifyRun

if TYPE_CHECKING:
    from txexport.verification.clients.judged import ClientRequest


@arguments_from(VerifyArguments, renamed={"third": "torch_onnx"})
@crashes()
@undisturbed
def verify(arguments: VerifyArguments) -> Report:
    """Compare the bundle `out` with its PyTorch original: its contents, and every case that applies.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. `adapter` is the adapter that was merged into it.

    `reference` is "twin", txexport's PyTorch components, or "transformers", the original; by default both,
    the latter if it is installed. "float64" is the twin in float64, whose checks also report the rounding of
    float32. "torch.onnx" is the twin exported by torch.onnx.export; `torch_onnx` adds it to the others, or
    reports why the exporter fails.

    `runtime` is the name of a runtime in `verification.runtimes`, a list of names, or "all", which skips
    those that cannot run here and reports the reason. A runtime that cannot load the graphs of a dtype fails
    there; a named one that can load no graph is an error. `device` is ONNX Runtime's; other runtimes use the
    CPU. `client` is other software, one of `clients.judged.NAMES`, that computes quick cases in one pass
    from the graphs for other clients: a column of the report beside the runtimes.

    `cases` are "full", "quick" for a handful, or a list of names from a report, to repeat those. `layers`
    also compares every component with its PyTorch module on the inputs of each case in ONNX Runtime: the
    report's `layers` name the wrong one. `texts` is a file of real inputs, one a line, which become further
    cases through the bundle's tokenizer, truncated to the model's limit; a pair of texts, or a source and
    its translation, has a tab between the two. Integers that were calibrated with these texts must serve them
    at least as well as uncalibrated ones.

    Graphs of an inexact dtype are compared twice. Without quantising activations they are compared with
    references with the stored numbers, within float32's error. As they are, they are compared with the
    original, and in ONNX Runtime by their answers to `texts`: `budget` is the share that may be lost, by a
    name in `losses.BUDGETS`.

    With `allow_edited` a graph that is not the exported one is judged by cases alone, which the report's
    scope says; otherwise it is a failure. `progress` is called before each case with a line such as
    "NAME: 3 of 40, 1:20 left", where the time is an estimate; True prints it on standard error.

    A traced bundle is compared with its class of transformers in ONNX Runtime alone; its graph must be the
    one that another trace makes. `out` may also be another tool's export of `source`: a folder of optimum,
    transformers.js, onnxruntime-genai, mobius or transformers' exporters, or one ONNX file in float32. It is
    compared in the same way, by cases alone: every size that its graphs do not declare must be right.

    A case that raises is a failure in the report. Raises OSError for a file that cannot be read, BundleError,
    CheckpointError, UnsupportedError or InputError if the comparison cannot be tried, and LibraryError for a
    library that crashed. The result of full or quick cases is recorded in the bundle; if the folder cannot be
    written, a warning says so.
    """
    tell = naming(arguments.progress)
    if bundle.is_traced(Path(arguments.out)):
        report = verify_traced(arguments, tell)
        record(Path(arguments.out), report, {})
        return report
    if is_export(Path(arguments.out)):
        return verify_export(arguments, tell)
    progress = Numbered(tell)
    plan = plan_of(arguments)
    runs = [VerifyRun(plan, variant, progress) for variant in plan.variants]
    progress.total = sum(run.steps for run in runs) + _client_steps(plan)
    report = _report(plan, runs, list(_cases(plan, runs, progress)))
    _check_unchanged(plan)
    record(plan.folder, report, {run.variant.name: run.answers for run in runs if run.answers})
    return report


def _client_request(plan: VerifyPlan) -> "ClientRequest":
    """The cases that a client computes."""
    from txexport.verification.clients import judged  # which needs PyTorch

    return judged.ClientRequest(plan.folder, plan.manifest, plan.spec, independent(plan.present), plan.names)


def _client_steps(plan: VerifyPlan) -> int:
    """The number of cases that the chosen client computes; 0 without one."""
    return 0 if plan.arguments.client is None else _client_request(plan).steps


def _cases(plan: VerifyPlan, runs: list[VerifyRun], progress: Naming) -> Iterator[CaseReport]:
    """The reports of all cases: contents, graphs on runtimes, other software, missing references."""
    for name, check in plan.contents.items():
        if name in plan.names:
            run = partial(check, plan.folder, plan.manifest, plan.checkpoint, plan.resolved)
            yield attempt(name, CHECKPOINT, run)
    for variant in runs:
        yield from variant.reports()
    if not runtimes.wants_all(plan.arguments.runtime):
        _check_started(runs)
    if plan.arguments.client is not None:
        from txexport.verification.clients import judged  # which needs PyTorch

        yield from judged.reports(plan.arguments.client, _client_request(plan), progress)
    for name, reason in plan.missing.items():
        yield CaseReport(ALL_CASES, name, skipped=reason)


def _check_started(runs: Iterable[VerifyRun]) -> None:
    """Raise the error of a named runtime that could load none of the graphs."""
    runs = list(runs)
    started = {name for run in runs for name in run.devices}
    for run in runs:
        for name, error in run.refused.items():
            if name not in started:
                raise error


def _check_unchanged(plan: VerifyPlan) -> None:
    """Raise BundleError or CheckpointError if bundle or checkpoint changed since they were read."""
    changed = bundle.files_sha256(plan.folder) != plan.digests
    if changed or plan.manifest.sha256 != plan.digests[bundle.MANIFEST]:
        raise BundleError(f"{plan.folder} was changed while it was verified; verify it again")
    checkpoint_of(plan.arguments, plan.manifest)


def _report(plan: VerifyPlan, runs: list[VerifyRun], cases: list[CaseReport]) -> Report:
    """The report of a verification that has run."""
    arguments, manifest = plan.arguments, plan.manifest
    devices = {name: device for run in runs for name, device in run.devices.items()}
    return Report(
        bundle=str(plan.folder),
        model_type=plan.resolved.model_type,
        task=plan.resolved.task,
        runtime=", ".join(f"{name} {device}" for name, device in devices.items()) or "nothing",
        versions=environment.versions() | runtimes.versions(devices),
        cases=cases,
        graphs={graph.file: one.name for one in plan.variants for graph in one.manifest.graphs.values()},
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        bundle_sha256={name: digest for name, digest in plan.digests.items() if name != ANSWERS},
        selection=arguments.cases if isinstance(arguments.cases, str) else list(arguments.cases),
        source=_text(arguments.source),
        adapter=_text(arguments.adapter),
        device=next((device for name, device in devices.items() if name.startswith(RUNTIME)), "cpu"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        layers=joined(run.probe.report() for run in runs if run.probe is not None),
        texts=_text(arguments.texts),
        calibrated=calibrated.summaries(manifest),
        notes=_notes(plan),
        checkpoint=f"{name_of(plan.checkpoint)} ({manifest.source.digest})",
        reach=_reach(plan, runs),
    )


def _reach(plan: VerifyPlan, runs: list[VerifyRun]) -> Reach:
    """The largest batch and sequences of the cases, and the number of experts that they reached."""
    from txexport.verification.cases.plan import reach  # which needs PyTorch

    cases = [case for variant in plan.variants for case in variant.cases]
    return reach(plan.spec, cases) | runs[0].experts


def _notes(plan: VerifyPlan) -> list[str]:
    """Notes on how the checkpoint was read."""
    form = plan.manifest.form
    notes = [plan.resolved.note] if plan.resolved.note is not None else []
    notes += [f"read with rope_factors {form.rope_factors}"] if form.rope_factors is not None else []
    notes += [f"read with image_size {form.image_size}"] if form.image_size is not None else []
    notes += [f"read in the language {form.language}"] if form.language is not None else []
    notes += [
        f"graphs of {name} compute in it: each number within {form.dtype(name).relative:.0e}"
        for name in form.dtypes
        if not form.dtype(name).single
    ]
    if not is_listed_whole(plan.manifest.source) and len(plan.manifest.companions) > 1:
        notes.append(
            "this export recorded config.json and weights alone, no tokenizer or settings; export again"
        )
    return notes


def _text(path: str | Path | None) -> str | None:
    return None if path is None else str(path)
