"""Run every case that applies to a bundle, and report."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from txexport import bundle, families
from txexport.bundle.source import ADVICE, changed, is_listed_whole, name_of, source_of
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.contracts import roles
from txexport.errors import (
    BundleError,
    CheckpointError,
    InputError,
    crashes,
)
from txexport.formats import DEFAULT, DTYPES
from txexport.runtime.bundle_files import BundleFiles
from txexport.spec import ModelSpec, parameters
from txexport.support.arguments import checked
from txexport.support.progress import naming
from txexport.verification import bundle_contents, calibrated, environment, identity, processors, runtimes
from txexport.verification.bounds import tolerance
from txexport.verification.checks import (
    CALIBRATED,
    CHECKPOINT,
    EVERY,
    HUB,
    IDENTITY,
    NATIVE,
    RUNTIME,
    CaseReport,
    TensorCheck,
    of_dtype,
)
from txexport.verification.layers.result import joined
from txexport.verification.losses import budgets_of
from txexport.verification.process_state import undisturbed
from txexport.verification.proof import record
from txexport.verification.references.selection import originals_of, reference_kinds
from txexport.verification.result import Report
from txexport.verification.runtimes import Runtime
from txexport.verification.verify_run import CaseProgress, VerifyRun, attempt

if TYPE_CHECKING:
    from txexport.verification.cases.plan import Planned
    from txexport.verification.references.originals import Reference


@checked
@crashes()
@undisturbed
def verify(
    out: str | Path,
    *,
    source: str | Path | None = None,
    adapter: str | Path | None = None,
    reference: str | None = None,
    device: str | None = "cpu",
    runtime: str | Sequence[str] = RUNTIME,
    cases: str | Sequence[str] = "full",
    layers: bool = False,
    texts: str | Path | None = None,
    third: bool = False,
    allow_edited: bool = False,
    client: str | None = None,
    budget: Mapping[str, float] | None = None,
    progress: CaseProgress | bool | None = None,
) -> Report:
    """Compare the bundle `out` with its original: its contents, and every case that applies.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. `reference` is "twin", our PyTorch components, or "transformers", the original; by
    default both, the latter where it is installed. "float64" is the twin in float64: each check then says
    what it is off by in float32, too, which is rounding. "torch.onnx" is as `third`, and nothing else.
    `runtime` is what runs the graphs: a name in `verification.runtimes`, several, or "all", of which those
    that cannot run here are skipped with the reason. One that cannot load the graphs of a dtype fails there;
    one that was named and can load no graph is an error. `device` is ONNX Runtime's; others run on the CPU.
    `cases` are "full", "quick" for a handful, or names that a report gave, whose cases are repeated as they
    were. `layers` compares every component beside its PyTorch module too, on the inputs of each case in ONNX
    Runtime: the report's `layers` say which one is wrong. `texts` is a file of real inputs, one a line, that
    the bundle's tokenizer reads: cases of their own; where a task takes pairs, or a translation has a
    target, two with a tab between them. What is too long is cut. Integers that these texts calibrated may
    serve them no worse than those that need no texts. `third` holds the bundle against "torch.onnx" too: the
    twin as PyTorch's own exporter writes it, or in the report why it cannot.
    `client` is other software, one of `clients.judged.NAMES`, that computes quick cases in one pass each from
    the graphs for other clients: a column of the report beside the runtimes.
    Graphs of a dtype that keeps not every number are compared without rounding activations, with originals of
    the numbers that it keeps, as float32 is; then, as they are, with the originals themselves, and in ONNX
    Runtime by their answers to `texts`: `budget` is what may be lost, by a name in `losses.BUDGETS`, as a
    share.
    `allow_edited` has a graph that is not the exported one judged by cases alone, which the report's scope
    says; else it is a failure. `progress` is told each case's name before it runs; True shows it on
    standard error. A case that raises is a
    failure in the report; what keeps the comparison from being tried at all raises OSError for a file that
    cannot be read, or BundleError, CheckpointError, UnsupportedError or InputError, or LibraryError for a
    library that crashed. What full or quick cases found is recorded in the bundle, where it can be written;
    else a warning says so.
    """
    folder, tell = Path(out), naming(progress)
    digests = bundle.files_sha256(folder)  # before anything is read: what comes later is not proved
    manifest = bundle.read(out)
    checkpoint = _checkpoint(folder, source, adapter, manifest)
    told = None if checkpoint.config.get("model_type") else manifest.model_type  # which export was given
    resolved = families.resolve(checkpoint, manifest.task, told)
    kinds = reference_kinds(reference, resolved.model_type, third)
    views = _views(manifest)
    lossy = {name: DTYPES[view.dtype] for name, view in views.items() if not DTYPES[view.dtype].exact}
    budgets = {name: budgets_of(dtype.name, budget or {}, texts is not None) for name, dtype in lossy.items()}
    if budget and not lossy:
        raise InputError(f"budget is for number formats, and the bundle has {DEFAULT} alone")
    chosen = runtimes.choose(runtime, folder, views, device)
    if layers:
        _check_layers(kinds, [one for graphs, one in chosen.items() if graphs.startswith(NATIVE)])
    from txexport.verification.cases.plan import reach  # which needs PyTorch
    from txexport.verification.clients import judged
    from txexport.verification.references.dequantised import dequantised_checkpoint
    from txexport.verification.text_losses import TextLosses

    if client is not None:
        judged.check(client, folder, manifest)
    contents = _contents(allow_edited, manifest, texts) | processors.checks(manifest, quick=cases == "quick")
    planned, names = _planned(folder, views, resolved.spec, cases, texts, contents)
    outputs = manifest.form.outputs
    originals = originals_of(kinds, checkpoint, resolved, outputs) if any(planned.values()) else {}
    bound = tolerance(sum(math.prod(shape) for shape in parameters.model(resolved.spec).values()))
    tried = {name: original for name, original in originals.items() if not isinstance(original, str)}
    kept = {
        dtype.name: dequantised_checkpoint(folder, checkpoint, resolved, manifest.form, dtype.name)
        for dtype in lossy.values()
    }
    own = {DEFAULT: tried} | {
        dtype: originals_of({name: kinds[name] for name in tried}, numbers, resolved, outputs)
        for dtype, numbers in kept.items()
        if tried
    }
    asked = TextLosses(folder, manifest, checkpoint, Path(texts)) if texts is not None and lossy else None
    run = {
        graphs: VerifyRun(
            folder,
            view,
            graphs,
            resolved.spec,
            (dict if graphs.startswith(NATIVE) else _judges)(own.get(view.dtype, {})),
            planned[graphs],
            bound,
            tell,
            layers and graphs.startswith(NATIVE),
            _judges(tried) if graphs in lossy else {},
            budgets.get(graphs, {}),
            kept[view.dtype].formats if graphs in lossy else {},
            asked if graphs.startswith(NATIVE) or manifest.form.only == "hub" else None,
        )
        for graphs, view in views.items()
    }
    results = [
        attempt(name, CHECKPOINT, partial(check, folder, manifest, checkpoint, resolved))
        for name, check in contents.items()
        if name in names
    ]
    for graphs in views:
        results += run[graphs].over(chosen[graphs], device)
    if not runtimes.wants_all(runtime):
        _check_tried(run.values())
    if client is not None:
        results += judged.over(client, folder, manifest, resolved.spec, _judges(tried), names, tell)
    results += [
        CaseReport(EVERY, name, skipped=why) for name, why in originals.items() if isinstance(why, str)
    ]
    devices = {name: where for one in run.values() for name, where in one.devices.items()}
    first = next(iter(run.values()))
    probes = [one.probe for one in run.values() if one.probe is not None]
    report = Report(
        bundle=str(out),
        model_type=resolved.model_type,
        task=resolved.task,
        runtime=", ".join(f"{name} {where}" for name, where in devices.items()) or "nothing",
        versions=environment.versions() | runtimes.versions(devices),
        cases=results,
        graphs={graph.file: kind for kind, view in views.items() for graph in view.graphs.values()},
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        bundle_sha256=digests,
        selection=cases if isinstance(cases, str) else list(cases),
        source=None if source is None else str(source),
        adapter=None if adapter is None else str(adapter),
        device=next((where for name, where in devices.items() if name.startswith(RUNTIME)), "cpu"),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        layers=joined(probe.report() for probe in probes),
        texts=None if texts is None else str(texts),
        calibrated=calibrated.told(manifest),
        notes=_notes(manifest, resolved),
        checkpoint=f"{name_of(checkpoint)} ({manifest.source.digest})",
        reach=reach(resolved.spec, [case for cases in planned.values() for case in cases]) | first.experts,
    )
    if bundle.files_sha256(folder) != digests or manifest.sha256 != digests[bundle.MANIFEST]:
        raise BundleError(f"{out} was changed while it was verified; verify it again")
    _checkpoint(folder, source, adapter, manifest)  # which may have been changed meanwhile, too
    record(folder, report)
    return report


def _checkpoint(
    folder: Path, source: str | Path | None, adapter: str | Path | None, manifest: bundle.Manifest
) -> Checkpoint:
    """The checkpoint, which must hold the files that were exported. Raises CheckpointError."""
    checkpoint = source_of(folder, manifest, source, adapter)
    if files := changed(checkpoint, manifest.source):
        raise CheckpointError(
            f"{checkpoint.folder} is not what was exported: {', '.join(files)} differs; {ADVICE}"
        )
    return checkpoint


def _notes(manifest: bundle.Manifest, resolved: families.Resolved) -> list[str]:
    """What a reader of the verdict should know of how the checkpoint was read."""
    form = manifest.form
    notes = [resolved.note] if resolved.note is not None else []
    notes += [f"read with rope_factors {form.rope_factors}"] if form.rope_factors is not None else []
    notes += [f"read with image_size {form.image_size}"] if form.image_size is not None else []
    if not is_listed_whole(manifest.source) and len(manifest.companions) > 1:
        notes.append(
            "this export recorded config.json and weights alone, no tokenizer or settings; export again"
        )
    return notes


def _check_layers(kinds: dict, chosen: Sequence[Iterable[Runtime]]) -> None:
    """Raise InputError where there is nothing to compare layers with, or nothing that runs them."""
    if not chosen:
        raise InputError("layers are those of our runtime's graphs, which the bundle lacks; leave out --only")
    if "twin" not in kinds:
        raise InputError(
            f"layers are held against the twin, not {', '.join(kinds)}; leave out the reference, or name that"
        )
    if not any(RUNTIME in {runtime.name for runtime in one} for one in chosen):
        raise InputError(f"layers are compared in {RUNTIME}; name it among the runtimes")


def _check_tried(runs: Iterable[VerifyRun]) -> None:
    """Raise what a named runtime said that could load none of the graphs: nothing was tried on it."""
    tried = [*runs]
    started = {name for run in tried for name in run.devices}
    for run in tried:
        for name, error in run.refused.items():
            if name not in started:
                raise error


def _views(manifest: bundle.Manifest) -> dict[str, bundle.Manifest]:
    """The bundle as if it held but the graphs of each kind and dtype that it has."""
    views = {}
    for dtype in manifest.form.dtypes:
        alone = manifest.of_dtype(dtype)
        if alone.native:
            views[of_dtype(NATIVE, dtype)] = alone
        if alone.hub:
            views[of_dtype(HUB, dtype)] = alone.for_others
    return views


def _judges(originals: "dict[str, Reference]") -> "dict[str, Reference]":
    """The originals without our own twin where another one is there: what it would say is known by then."""
    return {name: one for name, one in originals.items() if name != "twin"} or originals


def _planned(
    folder: Path,
    views: Mapping[str, bundle.Manifest],
    spec: ModelSpec,
    cases: str | Sequence[str],
    texts: str | Path | None,
    contents: Iterable[str],
) -> "tuple[dict[str, list[Planned]], AbstractSet[str]]":
    """The cases to run on each kind of graphs, and all names that are wanted, those of contents too."""
    from txexport.verification.cases.plan import computed, plan, select  # which needs PyTorch
    from txexport.verification.cases.texts import plan_texts

    planned, written = {}, {}
    for graphs, view in views.items():
        hub = graphs.startswith(HUB)
        planned[graphs] = plan(spec, static=view.cache == "static", outputs=view.form.outputs, hub=hub)
        written[graphs] = plan_texts(BundleFiles(folder), view, spec, texts)
        beside = any(name.startswith(NATIVE) for name in views)
        if graphs.startswith(HUB) and (beside or roles.ENCODER in view.graphs):
            planned[graphs], written[graphs] = computed(planned[graphs]), computed(written[graphs])
    every = {graphs: [*planned[graphs], *written[graphs]] for graphs in views}
    names = select([case for cases in every.values() for case in cases], cases, contents)
    if isinstance(cases, str):
        names |= {CALIBRATED} & {*contents}
    if texts is not None and isinstance(cases, str):
        names |= {case.name for cases in written.values() for case in cases} | {*contents}
    return {graphs: [case for case in cases if case.name in names] for graphs, cases in every.items()}, names


def _contents(
    allow_edited: bool, manifest: bundle.Manifest, texts: str | Path | None
) -> dict[str, Callable[..., list[TensorCheck]]]:
    """What lies in the bundle, by the names of its checks."""
    result: dict[str, Callable[..., list[TensorCheck]]] = dict(bundle_contents.CHECKS)
    result[IDENTITY] = partial(identity.check_graphs, allow_edited=allow_edited)
    if manifest.form.calibrated:
        given = None if texts is None else Path(texts)
        result[CALIBRATED] = partial(calibrated.check_texts, texts=given)
    return result
