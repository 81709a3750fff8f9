"""`verify_here`: a bundle on this device, engine and version against the answers that it keeps."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from txexport import bundle
from txexport.contracts import roles
from txexport.contracts.names import INPUT_IDS, LOGITS_INDICES
from txexport.errors import BundleError, InputError, crashes
from txexport.runtime.engines import ENGINES, FLOAT32
from txexport.runtime.loaded_bundle import LoadedBundle, open_bundle
from txexport.support.arguments import checked
from txexport.verification import environment
from txexport.verification.answers.stored import Answers, CaseAnswers, check, digest, read
from txexport.verification.attempt import attempt
from txexport.verification.cases.graph_runner import GraphRunner, runner_of
from txexport.verification.cases.plan import PlannedCase, plan
from txexport.verification.checks import ALL_CASES, HUB, NATIVE, STORED, CaseReport, TensorCheck, of_dtype
from txexport.verification.references.reference import Arrays, Source
from txexport.verification.result import Report

LACKING = "verify kept none for this number format, which loses too much, or an older txexport proved it"


@checked
@crashes()
def verify_here(
    out: str | Path,
    *,
    device: str | None = None,
    threads: int | None = None,
    dtype: str | None = None,
    engine: str = ENGINES[0],
    precision: str = FLOAT32,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Compare the bundle `out`, as it runs here, with the answers that it keeps of its PyTorch original.

    `verify` records them when it finds the bundle equal: for a few small cases the numbers of every output at
    some tens of places, and its norm. Neither PyTorch nor transformers nor the checkpoint is needed, and the
    bundle is not changed. `device`, `threads`, `engine` and `precision` are as in `load`; `dtype` is one of
    the bundle's, by default every one. `progress` is called with the name of each case before it runs.

    The report's `ok` and `verdict` tell whether the outputs are equal within the bounds of `verify`, and its
    cases which output of which graph is off by how much. Raises BundleError for a bundle that keeps no
    answers, or changed ones, InputError for a dtype whose answers are not kept, and the errors of `load`.
    """
    folder = Path(out)
    manifest = bundle.read(folder)
    bundle.spec_of(folder, manifest)  # a traced bundle keeps none
    answers = read(folder, manifest)
    cases: list[CaseReport] = []
    for name in manifest.form.dtypes if dtype is None else [dtype]:
        opened = open_bundle(
            folder, dtype=name, device=device, threads=threads, engine=engine, precision=precision
        )
        cases += compared(opened, answers, engine, progress)
        opened.close()
    return _report(folder, manifest, f"{engine} {opened.device}", cases)


def report_of(opened: LoadedBundle, engine: str) -> Report:
    """The report of an open bundle in an engine. Raises BundleError and InputError as `verify_here`."""
    cases = [*compared(opened, read(opened.folder, opened.manifest), engine)]
    return _report(opened.folder, opened.manifest, f"{engine} {opened.device}", cases)


def _report(folder: Path, manifest: bundle.Manifest, runtime: str, cases: list[CaseReport]) -> Report:
    """The report of cases on a runtime with its device. Raises InputError if none was compared."""
    if all(case.skipped for case in cases):
        raise InputError(f"{folder} keeps no answers for what is to be compared: {cases[0].skipped}")
    return Report(
        bundle=str(folder),
        model_type=manifest.model_type,
        task=manifest.task,
        runtime=runtime,
        versions=environment.versions(),
        cases=cases,
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        selection="quick",
        device=runtime.split()[-1],
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        graphs={
            graph.file: of_dtype(kind, dtype)
            for dtype, graphs in manifest.formats.items()
            for kind, some in ((NATIVE, graphs.native), (HUB, graphs.hub))
            for graph in some.values()
        },
    )


def compared(
    opened: LoadedBundle,
    every: Mapping[str, Answers],
    engine: str,
    progress: Callable[[str], None] | None = None,
) -> Iterator[CaseReport]:
    """The reports of every kept case on an open bundle. Raises BundleError for cases of another txexport."""
    manifest = opened.manifest
    spec, hub = bundle.spec_of(opened.folder, manifest), not manifest.native
    graphs = of_dtype(HUB if hub else NATIVE, manifest.dtype)
    answers, files = every.get(graphs), bundle.read_manifest(opened.folder).of_dtype(manifest.dtype).hub
    joins = hub and {role: one.file for role, one in manifest.hub.items()} != {
        role: one.file for role, one in files.items()
    }
    if answers is None or joins:
        reason = f"{engine} joins its graphs, so that txexport verify alone compares it" if joins else LACKING
        yield CaseReport(ALL_CASES, STORED, skipped=reason, runtime=engine, graphs=graphs)
        return
    planned = plan(spec, static=manifest.cache == "static", outputs=manifest.form.outputs, hub=hub)
    cases = {case.name: case for case in planned if case.run is not None}
    reference = f"{STORED} of {answers.reference}"
    for recorded in answers.cases:
        case = cases.get(recorded.name)
        if case is None or digest(case.case) != recorded.inputs:
            raise BundleError(
                f"this txexport or numpy makes other inputs of case '{recorded.name}' than those that were "
                f"answered; run txexport verify {opened.folder} again"
            )
        if progress is not None:
            progress(recorded.name)
        run = partial(_checks, opened, answers, recorded, case)
        yield attempt(recorded.name, reference, run, engine, graphs)


def _checks(
    opened: LoadedBundle, answers: Answers, recorded: CaseAnswers, case: PlannedCase
) -> list[TensorCheck]:
    """The checks of a case, which runs with arrays of the expected shapes in place of numbers."""
    assert case.run is not None
    outcomes = case.run(_runner(opened), Recalled(answers, recorded), case.case)
    arrays = {(one.output, one.graph): [ours for ours, _ in one.pairs] for one in outcomes}
    return [
        check(case.name, one, arrays.get((one.output, one.graph), []), answers.rounded)
        for one in recorded.answers
    ]


def _runner(opened: LoadedBundle) -> GraphRunner:
    """The runner of graphs as the engine opened them, which may pick logits where the files give all."""
    runner = runner_of(opened)

    def run(role: str | None = None, /, **inputs: np.ndarray) -> Arrays:
        session = opened.sessions.get(role or roles.MODEL)
        if session is not None and LOGITS_INDICES in session.inputs and LOGITS_INDICES not in inputs:
            ids = inputs[INPUT_IDS]
            inputs[LOGITS_INDICES] = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
        return runner.run(role, **inputs)

    return replace(runner, run=run)


class Recalled:
    """A reference whose calls give arrays of the recorded shapes, without numbers; see Reference."""

    def __init__(self, answers: Answers, recorded: CaseAnswers):
        self.name = answers.reference
        self.lacks = dict.fromkeys(answers.lacks, "")
        self._calls = iter(recorded.calls)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        return self._next()

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        return self._next()

    def _next(self) -> Arrays:
        shapes = next(self._calls, None)
        if shapes is None:
            raise BundleError("the case asks for more answers than were recorded")
        return {name: np.broadcast_to(np.float32(np.nan), shape) for name, shape in shapes.items()}
