"""The cases of one variant of the graphs, run on every runtime against every reference."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txexport.bundle.manifest import UNROUNDED, rounds_activations
from txexport.errors import BundleError, counted
from txexport.formats import DEFAULT
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.support.progress import Naming
from txexport.verification.activation_quantisation import (
    quantises_activations,
    without_activation_quantisation,
)
from txexport.verification.attempt import attempt
from txexport.verification.checks import (
    ALL_CASES,
    FORMAT_LOSS,
    FORMAT_LOSS_ON_TEXTS,
    FORMAT_LOSS_UNSET,
    HUB,
    RANGE,
    RUNTIME,
    UNSET_OPTIONS,
    CaseReport,
    TensorCheck,
)
from txexport.verification.counts import kind
from txexport.verification.graph_validity import invalid_graph
from txexport.verification.losses import BUDGETS, lost
from txexport.verification.plain_sessions import Calls
from txexport.verification.runtimes.runtime import Options, Runtime
from txexport.verification.verify_plan import VariantPlan, VerifyPlan, independent

if TYPE_CHECKING:
    from txexport.verification.answers.recording import Recording
    from txexport.verification.answers.stored import Answers
    from txexport.verification.cases.experts import ExpertsTaken
    from txexport.verification.cases.overflow import Overflow
    from txexport.verification.cases.plan import PlannedCase
    from txexport.verification.layers.probe import Probe
    from txexport.verification.references.reference import Reference


@dataclass
class VerifyRun:
    """The run of a variant with the bundle's own files, so that a change in them shows in the numbers.

    A variant of an inexact number format runs without quantising activations against references with the
    stored numbers, and then unchanged, for its losses relative to the references in float32.
    """

    plan: VerifyPlan
    variant: VariantPlan
    progress: Naming  # called with each case's name before it runs
    devices: dict[str, str] = field(default_factory=dict)  # of each runtime that started
    refused: dict[str, BundleError] = field(default_factory=dict)  # by each runtime that cannot load a graph
    probe: "Probe | None" = None
    experts_taken: "ExpertsTaken | None" = None
    overflow: "Overflow | None" = None  # of a variant that computes in a narrower type
    recording: "Recording | None" = None  # of what a reference answers
    rounded: "Answers | None" = None  # to graphs that round activations

    @property
    def experts(self) -> dict[str, tuple[int, int | None]]:
        """The number of experts of all layers that the cases reached, and of all; empty without experts."""
        if self.experts_taken is None:
            return {}
        return {"experts": (len(self.experts_taken.taken), self.experts_taken.total)}

    @property
    def answers(self) -> "Answers | None":
        """The answers of the original that the bundle is to keep."""
        return self.rounded if self.recording is None else self.recording.answers

    @property
    def files(self) -> dict[str, Path]:
        """The graphs by role."""
        return {role: self.plan.folder / graph.file for role, graph in self.variant.manifest.graphs.items()}

    @property
    def steps(self) -> int:
        """The number of calls of `progress` if every runtime can load the graphs."""
        steps = 0
        for runtime in (runtime for runtime, reason in self.variant.runtimes.items() if reason is None):
            cases = sum(
                case.run is not None and self._skipped(case, runtime) is None for case in self.variant.cases
            )
            steps += cases * len(self.variant.references) + self._reads_texts(runtime)
        return steps

    def _skipped(self, case: "PlannedCase", runtime: Runtime) -> str | None:
        """The reason why a case does not run on a runtime."""
        return case.skipped if case.case is None else runtime.skips(self.plan.spec, case.case)

    def _reads_texts(self, runtime: Runtime) -> bool:
        """Tell whether the losses on the user's texts are measured on a runtime."""
        return bool(self.variant.budgets) and self.variant.texts is not None and runtime.name == RUNTIME

    def reports(self) -> Iterator[CaseReport]:
        """The reports of all cases on each runtime, or the reason why one cannot run."""
        invalid = invalid_graph(self.files.values())
        for runtime, reason in self.variant.runtimes.items():
            if invalid is not None:
                yield from self._of_all(runtime, exception=invalid)
            elif reason is not None:
                yield from self._of_all(runtime, skipped=reason)
            else:
                yield from self._on(runtime)

    def _on(self, runtime: Runtime) -> Iterator[CaseReport]:
        """The reports on a runtime; a graph that it cannot load is a failure."""
        try:
            if not self.variant.budgets:
                with self._opened(runtime) as loaded:
                    yield from self._cases(runtime, loaded, self.files)
                return
            yield from self._unquantised(runtime)
            yield from self._losses(runtime)
            yield from self._losses_on_texts(runtime)
        except BundleError as error:
            self.refused.setdefault(runtime.name, error)
            yield from self._of_all(runtime, exception=str(error))

    def _opened(self, runtime: Runtime) -> AbstractContextManager[LoadedBundle]:
        """The graphs as `load` opens them, with the manifest's options."""
        return self._loaded(runtime, self.files, self.variant.manifest.session_options)

    def _unquantised(self, runtime: Runtime) -> Iterator[CaseReport]:
        """The cases without quantisation of activations; graphs that quantise none run as they are."""
        options = {**self.variant.manifest.session_options, **UNROUNDED}
        if not quantises_activations(self.files.values()):
            with self._loaded(runtime, self.files, options) as loaded:
                yield from self._cases(runtime, loaded, self.files)
            return
        with (
            without_activation_quantisation(self.plan.folder, self.files) as files,
            self._loaded(runtime, files, options) as loaded,
        ):
            yield from self._cases(runtime, loaded, files)

    def _losses(self, runtime: Runtime) -> Iterator[CaseReport]:
        """The losses of the unchanged graphs relative to the references in float32.

        Graphs for other clients also run without session options, as these open them. The outputs must be the
        same; where the options keep activations from being rounded, the loss without them is reported.
        """
        from txexport.verification.answers.recording import recorded_in_float32
        from txexport.verification.cases.graph_runner import runner_of
        from txexport.verification.cases.plan import QUICK, computed
        from txexport.verification.router_ties import judged_by_choices  # which needs PyTorch

        cases = [case for case in computed(self.variant.cases) if case.run is not None and case.name in QUICK]
        if not cases:
            return
        plain, calls = runtime.name == RUNTIME and self.variant.name.startswith(HUB), Calls()
        compared = plain and not self._exact_blocks
        with self._opened(runtime) as loaded:
            runner = runner_of(loaded)
            for name, reference in self.variant.float32.items():
                recorded = calls.recording(runner) if compared else runner
                once = partial(lost, recorded, cases, reference, self.variant.budgets)
                run = partial(judged_by_choices, once, self.variant.manifest.spec)
                yield (report := attempt(FORMAT_LOSS, name, run, runtime.name, self.variant.name))
                if report.ok and self._rounds and self._records(runtime, reference, self.variant.float32):
                    self.rounded = recorded_in_float32(runner, cases, reference, self.plan.spec)
        if not plain:
            return
        with self._loaded(runtime, self.files, {}) as loaded:
            runner = runner_of(loaded)
            if compared:
                run = partial(calls.compare, runner, self.variant.dtype.relative)
                yield attempt(UNSET_OPTIONS, name, run, runtime.name, self.variant.name)
                return
            budgets = BUDGETS[f"{self.variant.dtype.name}-fast"]
            once = partial(lost, runner, cases, reference, budgets)
            run = partial(judged_by_choices, once, self.variant.manifest.spec)
            yield attempt(FORMAT_LOSS_UNSET, name, run, runtime.name, self.variant.name)

    @property
    def _exact_blocks(self) -> bool:
        """True for block-quantised matrices whose session option keeps activations from being rounded."""
        return self.variant.dtype.blocks and not self.variant.dtype.rounds_blocks

    def _losses_on_texts(self, runtime: Runtime) -> Iterator[CaseReport]:
        """The losses of the unchanged graphs relative to float32's answers to the user's texts."""
        texts = self.variant.texts
        if texts is None or not self._reads_texts(runtime):
            return
        self.progress(f"{FORMAT_LOSS_ON_TEXTS} ({self.variant.name})")
        with self._opened(runtime) as loaded:
            run = partial(texts.lost, loaded, self.variant.budgets)
            yield attempt(FORMAT_LOSS_ON_TEXTS, DEFAULT, run, runtime.name, self.variant.name)

    @contextmanager
    def _loaded(
        self, runtime: Runtime, files: Mapping[str, Path], options: Options
    ) -> Iterator[LoadedBundle]:
        with runtime.open(files, self.plan.arguments.device, options) as (device, sessions):
            self.devices[runtime.name] = device
            yield LoadedBundle(self.plan.folder, self.variant.manifest, device, sessions)

    def _observed(
        self, runtime: Runtime, loaded: LoadedBundle, files: Mapping[str, Path]
    ) -> "Iterator[tuple[str, Reference, PlannedCase]]":
        """The cases for each reference, with the hooks that count experts and probe components."""
        from txexport.verification.cases.experts import ExpertsTaken, has_experts
        from txexport.verification.cases.overflow import Overflow
        from txexport.verification.layers.probe import Probe
        from txexport.verification.references.originals import Float64Twin, Twin

        for name, reference in self.variant.references.items():
            cases: Sequence[PlannedCase] = self.variant.cases
            if isinstance(reference, Twin) and self.experts_taken is None and has_experts(reference.model):
                self.experts_taken = ExpertsTaken(reference.model)
            single = reference if isinstance(reference, Twin) else None
            single = None if isinstance(reference, Float64Twin) else single
            if single is not None and self.overflow is None and self.variant.dtype.most is not None:
                self.overflow = Overflow(single.model)
            probes = self.variant.layers and runtime.name == RUNTIME
            if probes and single is not None:
                self.probe = Probe(loaded, single, self.plan.bound, files, self.variant.formats)
                cases = self.probe.through(cases)
            for case in cases:
                yield name, reference, case

    def _cases(
        self, runtime: Runtime, loaded: LoadedBundle, files: Mapping[str, Path]
    ) -> Iterator[CaseReport]:
        """The reports of the cases against each reference; `files` are the loaded graphs by role."""
        from txexport.verification.cases.graph_runner import runner_of
        from txexport.verification.judgement import judge  # which needs PyTorch

        runner = runner_of(loaded)
        for name, reference, case in self._observed(runtime, loaded, files):
            skipped = self._skipped(case, runtime)
            if case.run is None or skipped is not None:
                yield self._report(case.name, name, runtime, skipped=skipped)
                continue
            self.progress(f"{case.name} ({name}, {runtime.name})")
            recording = self._recording(runtime, reference)
            run = case.run if recording is None else recording.through(case)
            check = partial(judge, run, runner, reference, case.case, self.variant.dtype.relative)
            yield (report := attempt(case.name, name, check, runtime.name, self.variant.name))
            if recording is not None:
                recording.keep(case, report)
        yield from self._lacking(runtime)
        yield from self._in_range(runtime)

    def _in_range(self, runtime: Runtime) -> Iterator[CaseReport]:
        """The report on the sizes of the numbers of every component, where graphs compute in a narrow type.

        The processor computes much of such a graph in float32, and so does not overflow itself.
        """
        if self.overflow is None or (most := self.variant.dtype.most) is None:
            return
        largest = self.overflow.largest
        if not largest:  # no case ran
            return
        beyond = [name for name, size in largest.items() if size > most]
        if beyond:
            more = f", and {counted(len(beyond) - 1, 'more component')}" if beyond[1:] else ""
            text = f"{beyond[0]} reaches {largest[beyond[0]]:.3g}{more}"
            why = f"{self.variant.dtype.name} ends at {most:.0f}, and {text}"
            yield self._report(RANGE, "twin", runtime, exception=why)
            return
        name = max(largest, key=largest.__getitem__)
        check = TensorCheck(name, len(largest), largest[name] / most, 1.0)
        yield replace(self._report(RANGE, "twin", runtime), checks=[check])

    def _recording(self, runtime: Runtime, reference: "Reference") -> "Recording | None":
        """The recording of what a reference answers, if it is the most independent one.

        Graphs that round activations are judged without; `_losses` records their answers.
        """
        from txexport.verification.answers.recording import Recording

        if not self._records(runtime, reference, self.variant.references) or self._rounds:
            return None
        if self.recording is None:
            self.recording = Recording(reference, self.plan.bound)
        return self.recording

    def _records(self, runtime: Runtime, reference: "Reference", references: "dict[str, Reference]") -> bool:
        """Tell whether the answers of a reference on a runtime are those to keep."""
        return runtime.name == RUNTIME and reference is next(iter(independent(references).values()))

    @cached_property
    def _rounds(self) -> bool:
        """Tell whether the graphs round activations as they run; only formats with a budget may."""
        options = self.variant.manifest.session_options
        return bool(self.variant.budgets) and (
            rounds_activations(options) or quantises_activations(self.files.values())
        )

    def _lacking(self, runtime: Runtime) -> Iterator[CaseReport]:
        """Skipped reports for the kinds of outputs that a reference lacks, so that no case compared them."""
        from txexport.verification.cases.plan import computed

        graphs = self.variant.manifest.graphs.values()
        kinds = {kind(port.name) for graph in graphs for port in graph.outputs}
        for name, reference in self.variant.references.items() if computed(self.variant.cases) else ():
            for lacking, reason in reference.lacks.items():
                if lacking in kinds:
                    yield self._report(lacking, name, runtime, skipped=reason)

    def _of_all(self, runtime: Runtime, **result: str) -> Iterator[CaseReport]:
        """One report against each reference that stands for all cases."""
        for name in self.variant.references:
            yield self._report(ALL_CASES, name, runtime, **result)

    def _report(self, case: str, reference: str, runtime: Runtime, **result: Any) -> CaseReport:
        """The report of a case that did not run."""
        return CaseReport(case, reference, runtime=runtime.name, graphs=self.variant.name, **result)
