"""The cases of a verification, tried on every runtime against every original."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from txexport import bundle
from txexport.bundle.manifest import UNROUNDED
from txexport.errors import BundleError, LibraryError, UnsupportedError, first_line
from txexport.formats import DEFAULT, NumberFormat
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.spec import ModelSpec
from txexport.verification.bounds import RELATIVE
from txexport.verification.checks import (
    EVERY,
    LOST,
    LOST_ON_TEXTS,
    NATIVE,
    RUNTIME,
    CaseReport,
    SkipError,
    TensorCheck,
)
from txexport.verification.counts import kind
from txexport.verification.linked import for_checker
from txexport.verification.losses import lost
from txexport.verification.runtimes.runtime import Options, Runtime
from txexport.verification.unrounded import rounds, unrounded

if TYPE_CHECKING:
    from txexport.verification.cases.experts import ExpertsTaken
    from txexport.verification.cases.plan import Planned
    from txexport.verification.layers.probe import Probe
    from txexport.verification.references.originals import Reference
    from txexport.verification.text_losses import TextLosses

Run = Callable[[], list[TensorCheck]]
CaseProgress = Callable[[str], None]  # the name of a case before it runs


@dataclass
class VerifyRun:
    """A bundle as it is, since what is altered must show in the numbers, with cases and originals for it.

    `manifest` is of the graphs that are tried, and `graphs` says which they are, as in CaseReport. Those of a
    number format that keeps not every number are tried without rounding activations, beside originals of the
    numbers that it keeps, by its parameters' `formats`; `float32` are those of the numbers that it had, and
    `budgets` what may be lost of them, and of answers to `texts`.
    """

    folder: Path
    manifest: bundle.Manifest
    graphs: str
    spec: ModelSpec
    originals: "dict[str, Reference]"
    planned: "list[Planned]"
    bound: float
    progress: CaseProgress | None
    layers: bool
    float32: "dict[str, Reference]" = field(default_factory=dict)
    budgets: dict[str, float] = field(default_factory=dict)
    formats: Mapping[str, NumberFormat] = field(default_factory=dict)
    texts: "TextLosses | None" = None
    devices: dict[str, str] = field(default_factory=dict)  # where each runtime that started has run
    refused: dict[str, BundleError] = field(default_factory=dict)  # what each said of what it cannot load
    probe: "Probe | None" = None
    taken: "ExpertsTaken | None" = None

    @property
    def experts(self) -> dict[str, tuple[int, int | None]]:
        """How many experts of all layers the cases have seen at work, and of how many."""
        return {"experts": (len(self.taken.taken), self.taken.total)} if self.taken is not None else {}

    @property
    def files(self) -> dict[str, Path]:
        """The graphs by role."""
        return {role: self.folder / graph.file for role, graph in self.manifest.graphs.items()}

    def over(self, chosen: dict[Runtime, str | None], device: str | None) -> Iterator[CaseReport]:
        """The cases on each runtime, or why one cannot run; a graph that it cannot load is a failure."""
        invalid = _invalid(self.files.values())
        for runtime, why in chosen.items():
            if invalid is not None:
                for name in self.originals:
                    yield self._report(EVERY, name, runtime, exception=invalid)
                continue
            if why is not None:
                for name in self.originals:
                    yield self._report(EVERY, name, runtime, skipped=why)
                continue
            try:
                yield from self._exact(runtime, device) if self.budgets else self._as_it_is(runtime, device)
                if self.budgets:
                    yield from self._lost(runtime, device)
                    yield from self._lost_on_texts(runtime, device)
            except BundleError as error:
                self.refused.setdefault(runtime.name, error)
                for name in self.originals:
                    yield self._report(EVERY, name, runtime, exception=str(error))

    def _as_it_is(self, runtime: Runtime, device: str | None) -> Iterator[CaseReport]:
        """The cases on a runtime."""
        with self._opened(runtime, device) as loaded:
            yield from self.on(runtime, loaded, self.files)

    def _opened(self, runtime: Runtime, device: str | None) -> AbstractContextManager[LoadedBundle]:
        """The graphs as `load` opens them: the same files, with the options that the manifest says."""
        return self._loaded(runtime, self.files, device, self.manifest.session_options)

    def _exact(self, runtime: Runtime, device: str | None) -> Iterator[CaseReport]:
        """The cases on a runtime that rounds no activations: as they are where no node rounds any."""
        plain = {**self.manifest.session_options, **UNROUNDED}
        if not rounds(self.files.values()):
            with self._loaded(runtime, self.files, device, plain) as loaded:
                yield from self.on(runtime, loaded, self.files)
            return
        with (
            unrounded(self.folder, self.files) as files,
            self._loaded(runtime, files, device, plain) as loaded,
        ):
            yield from self.on(runtime, loaded, files)

    def _lost(self, runtime: Runtime, device: str | None) -> Iterator[CaseReport]:
        """What the graphs as they are lose of the originals in float32."""
        from txexport.verification.cases.graph_runner import runner_of
        from txexport.verification.cases.plan import QUICK, computed
        from txexport.verification.router_ties import judged_by_choices  # which needs PyTorch

        tried = [case for case in computed(self.planned) if case.run is not None and case.name in QUICK]
        if not tried:
            return
        with self._opened(runtime, device) as loaded:
            runner = runner_of(loaded)
            for name, original in self.float32.items():
                once = partial(lost, runner, tried, original, self.budgets)
                run = partial(judged_by_choices, once, self.manifest.spec)
                yield attempt(LOST, name, run, runtime.name, self.graphs)

    def _lost_on_texts(self, runtime: Runtime, device: str | None) -> Iterator[CaseReport]:
        """What the graphs as they are lose of float32's answers to texts, where these are given."""
        if self.texts is None or runtime.name != RUNTIME:
            return
        if self.progress is not None:
            self.progress(f"{LOST_ON_TEXTS} ({self.graphs})")
        with self._opened(runtime, device) as loaded:
            run = partial(self.texts.lost, loaded, self.budgets)
            yield attempt(LOST_ON_TEXTS, DEFAULT, run, runtime.name, self.graphs)

    @contextmanager
    def _loaded(
        self, runtime: Runtime, files: Mapping[str, Path], device: str | None, options: Options
    ) -> Iterator[LoadedBundle]:
        with runtime.open(files, device, options) as (where, sessions):
            self.devices[runtime.name] = where
            yield LoadedBundle(self.folder, self.manifest, where, sessions)

    def _tried(
        self, runtime: Runtime, loaded: LoadedBundle, files: Mapping[str, Path]
    ) -> "Iterator[tuple[str, Reference, Planned]]":
        """The cases for each original, with what listens to them."""
        from txexport.verification.cases.experts import ExpertsTaken, has_experts
        from txexport.verification.layers.probe import Probe
        from txexport.verification.references.originals import Float64Twin, Twin

        for name, original in self.originals.items():
            planned: Sequence[Planned] = self.planned
            if isinstance(original, Twin) and self.taken is None and has_experts(original.model):
                self.taken = ExpertsTaken(original.model)
            listens = self.layers and runtime.name == RUNTIME and not isinstance(original, Float64Twin)
            if isinstance(original, Twin) and listens:
                self.probe = Probe(loaded, original, self.bound, files, self.formats)
                planned = self.probe.through(planned)
            for case in planned:
                yield name, original, case

    def on(self, runtime: Runtime, loaded: LoadedBundle, files: Mapping[str, Path]) -> Iterator[CaseReport]:
        """The cases on a runtime against each original, of which the graphs lie in `files` by role."""
        from txexport.verification.cases.graph_runner import runner_of
        from txexport.verification.judgement import judge  # which needs PyTorch

        runner = runner_of(loaded)
        for name, original, case in self._tried(runtime, loaded, files):
            skipped = case.skipped if case.case is None else runtime.skips(self.spec, case.case)
            if case.run is None or skipped is not None:
                yield self._report(case.name, name, runtime, skipped=skipped)
                continue
            if self.progress is not None:
                self.progress(f"{case.name} ({name}, {runtime.name})")
            run = partial(judge, case.run, runner, original, case.case, RELATIVE)
            yield attempt(case.name, name, run, runtime.name, self.graphs)
        yield from self._lacking(runtime)

    def _lacking(self, runtime: Runtime) -> Iterator[CaseReport]:
        """Which outputs of the graphs no case compared, since an original lacks them."""
        from txexport.verification.cases.plan import computed

        given = {kind(port.name) for graph in self.manifest.graphs.values() for port in graph.outputs}
        for name, original in self.originals.items() if computed(self.planned) else ():
            for lacking, why in original.lacks.items():
                if lacking in given:
                    yield self._report(lacking, name, runtime, skipped=why)

    def _report(self, case: str, reference: str, runtime: Runtime, **came: Any) -> CaseReport:
        """What came of a case that was not tried, or could not be."""
        return CaseReport(case, reference, runtime=runtime.name, graphs=self.graphs, **came)


def _invalid(files: Iterable[Path]) -> str | None:
    """Why a graph is no valid ONNX, which some runtimes do not survive; None where all are."""
    for file in files:
        try:
            with for_checker(file) as checked:
                onnx.checker.check_model(str(checked))
        except Exception as error:  # also one of protobuf's
            return f"{file} is no valid ONNX: {first_line(error)}"
        if (call := _incomplete_call(onnx.load(file, load_external_data=False))) is not None:
            return f"{file} calls {call} without all of its inputs"
    return None


def _incomplete_call(model: onnx.ModelProto) -> str | None:
    """A function that a node gives fewer inputs than its body reads, of which ONNX Runtime may die."""
    needed = {}
    for function in model.functions:
        read = {name for node in function.node for name in node.input}
        last = (at for at, name in enumerate(function.input, 1) if name in read)
        needed[function.domain, function.name] = max(last, default=0)
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            if len(node.input) < needed.get((node.domain, node.op_type), 0):
                return str(node.op_type)
    return None


def attempt(
    name: str, reference: str, run: Run, runtime: str | None = None, graphs: str = NATIVE
) -> CaseReport:
    """The report of a case that `run` tries. Raises UnsupportedError where memory does not suffice."""
    start = time.perf_counter()

    def report(
        checks: list[TensorCheck], exception: str | None = None, graph: str | None = None
    ) -> CaseReport:
        seconds = round(time.perf_counter() - start, 3)
        return CaseReport(name, reference, checks, exception, None, runtime, graphs, graph, seconds)

    try:
        return report(run())
    except SkipError as why:
        return CaseReport(name, reference, skipped=str(why), runtime=runtime, graphs=graphs)
    except LibraryError:
        raise
    except MemoryError:
        raise UnsupportedError(f"case '{name}' does not fit into this machine's memory") from None
    except Exception as error:  # whatever stops a case is a failure of the bundle, and is reported
        graph = next(iter(getattr(error, "__notes__", ())), None)  # of `runner_of`
        return report([], f"{type(error).__name__}: {error}", graph)
