"""Run every case that applies to a bundle, and report."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from txexport import bundle, families
from txexport.arguments import checked
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import (
    BundleError,
    CheckpointError,
    InputError,
    LibraryError,
    TxexportError,
    UnsupportedError,
    crashes,
)
from txexport.runtime.bundle_files import BundleFiles
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.spec import ModelSpec, parameters
from txexport.verification import bundle_contents, environment, identity, runtimes
from txexport.verification.bounds import RELATIVE
from txexport.verification.proof import record
from txexport.verification.result import (
    CHECKPOINT,
    EVERY,
    IDENTITY,
    RUNTIME,
    CaseReport,
    Report,
    SkipError,
    TensorCheck,
    tolerance,
)
from txexport.verification.runtimes import Runtime

if TYPE_CHECKING:
    from txexport.verification.cases.experts import ExpertsTaken
    from txexport.verification.cases.plan import Planned
    from txexport.verification.layers.probe import Probe
    from txexport.verification.references.originals import Reference

Run = Callable[[], list[TensorCheck]]
CaseProgress = Callable[[str], None]  # the name of a case before it runs


@checked
@crashes()
def verify(
    out: str | Path,
    *,
    source: str | Path | None = None,
    reference: str | None = None,
    device: str | None = "cpu",
    runtime: str | Sequence[str] = RUNTIME,
    cases: str | Sequence[str] = "full",
    layers: bool = False,
    texts: str | Path | None = None,
    third: bool = False,
    allow_edited: bool = False,
    progress: CaseProgress | None = None,
) -> Report:
    """Compare the bundle `out` with its original: its contents, and every case that applies.

    `source` is the checkpoint, by default the folder that it was exported from; it must still hold the files
    that were exported. `reference` is "twin", our PyTorch components, or "transformers", the original; by
    default both, the latter where it is installed. "float64" is the twin in float64: each check then says
    what it is off by in float32, too, which is rounding. `runtime` is what runs the graphs: a name in
    `verification.runtimes`, several, or "all", of which those that cannot run here are skipped with the
    reason. `device` is ONNX Runtime's; others run on the CPU. `cases` are "full", "quick" for a handful, or
    names that a report gave, whose cases are repeated as they were. `layers` compares every component beside
    its PyTorch module too, on the inputs of each case in ONNX Runtime: the report's `layers` say which one is
    wrong. `texts` is a file of real inputs, one a line, that the bundle's tokenizer reads: cases of their
    own; where a task takes pairs, or a translation has a target, two with a tab between them. What is too
    long is cut. `third` holds the bundle against "torch.onnx" too: the twin as PyTorch's own exporter writes
    it, or in the report why it cannot. `allow_edited` has a graph that is not the exported one judged by
    cases alone, which the report's scope says; else it is a failure. `progress` is told each case's name
    before it runs. A case that raises is a failure in the report; what keeps the comparison from being tried
    at all raises OSError for a file that cannot be read, or BundleError, CheckpointError, UnsupportedError or
    InputError, or LibraryError for a library that crashed. What full or quick cases found is recorded in the
    bundle, where it can be written; else a warning says so.
    """
    manifest = bundle.read(out)
    digests = bundle.files_sha256(Path(out))  # before anything is tried: what comes later is not proved
    checkpoint = Checkpoint(source or manifest.source.path)
    changed = [
        name for name, digest in checkpoint.hashes().items() if manifest.source.sha256.get(name) != digest
    ]
    if changed:
        raise CheckpointError(f"{checkpoint.folder} is not what was exported: {', '.join(changed)} differs")
    resolved = families.understand(checkpoint, manifest.task)
    kinds = _kinds(reference, resolved.model_type, third)
    if layers and "twin" not in kinds:
        raise InputError("layers are held against the twin; leave out the reference, or name that")
    chosen = runtimes.choose(runtime, Path(out), manifest, device)
    if layers and RUNTIME not in (kind.name for kind in chosen):
        raise InputError(f"layers are compared in {RUNTIME}; name it among the runtimes")
    from txexport.verification.cases.plan import plan, reach, select  # which needs PyTorch
    from txexport.verification.cases.texts import plan_texts

    planned = plan(resolved.spec, static=manifest.cache == "static")
    written = plan_texts(BundleFiles(Path(out)), manifest, resolved.spec, texts)
    names = select([*planned, *written], cases)
    if texts is not None and isinstance(cases, str):
        names |= {case.name for case in written}
    planned += written
    planned = [case for case in planned if case.name in names]
    originals = _originals(kinds, checkpoint, resolved) if planned else {}
    checks = bundle_contents.CHECKS | {IDENTITY: partial(identity.check_graphs, allow_edited=allow_edited)}
    found = [
        attempt(name, CHECKPOINT, partial(run, Path(out), manifest, checkpoint, resolved))
        for name, run in checks.items()
        if name in names
    ]
    trial = _Trial(
        Path(out),
        manifest,
        resolved.spec,
        {name: original for name, original in originals.items() if not isinstance(original, str)},
        planned,
        tolerance(sum(math.prod(shape) for shape in parameters.model(resolved.spec).values())),
        progress,
        layers,
    )
    found += trial.over(chosen, device, tolerant=runtimes.wants_all(runtime))
    found += [CaseReport(EVERY, name, skipped=why) for name, why in originals.items() if isinstance(why, str)]
    report = Report(
        bundle=str(out),
        model_type=resolved.model_type,
        task=resolved.task,
        runtime=", ".join(f"{name} {where}" for name, where in trial.devices.items()) or "nothing",
        versions=environment.versions() | runtimes.versions(trial.devices),
        cases=found,
        environment=environment.environment(),
        checkpoint_sha256=manifest.source.sha256,
        bundle_sha256=digests,
        selection=cases if isinstance(cases, str) else list(cases),
        source=None if source is None else str(source),
        device="cuda" if "cuda" in trial.devices.values() else "cpu",
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        layers=None if trial.probe is None else trial.probe.report(),
        texts=None if texts is None else str(texts),
        reach=reach(resolved.spec, planned) | trial.experts,
    )
    if bundle.files_sha256(Path(out)) != digests:
        raise BundleError(f"{out} was changed while it was verified; verify it again")
    record(Path(out), report)
    return report


def _kinds(reference: str | None, model_type: str, third: bool) -> dict:
    """The classes of references by name; in place of one that is not needed and not there, why."""
    try:
        from txexport.verification.references.originals import REFERENCES, Double
        from txexport.verification.references.torch_onnx import Third
    except ImportError:
        raise UnsupportedError("verify needs PyTorch, which is not installed") from None
    known = {**REFERENCES, "float64": Double, "torch.onnx": Third}
    if reference is not None and reference not in known:
        raise InputError(f"reference '{reference}' is not known; expected one of {', '.join(known)}")
    kinds: dict = dict(REFERENCES) if reference is None else {reference: known[reference]}
    if third:
        kinds["torch.onnx"] = Third
    if "transformers" in kinds and model_type == families.COMPOSED:
        kinds["transformers"] = "put together by hand, of which transformers has no original"
    elif reference is None and find_spec("transformers") is None:
        kinds["transformers"] = "transformers is not installed"
    return kinds


def _originals(kinds: dict, checkpoint: Checkpoint, resolved: families.Resolved) -> dict:
    """The references by name, made of the checkpoint."""
    originals: dict = {}
    for name, kind in kinds.items():
        if isinstance(kind, str):
            originals[name] = kind
            continue
        try:
            originals[name] = kind(checkpoint, resolved)
        except TxexportError as error:
            if name != "torch.onnx" or len(kinds) == 1:
                raise
            originals[name] = str(error)  # beside others, what it cannot do is no failure
        except Exception as error:  # a library's refusal of the checkpoint, in whatever form
            said = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise UnsupportedError(
                f"reference '{name}' could not be made of {checkpoint.folder}: {said}"
            ) from error
    return originals


@dataclass
class _Trial:
    """A bundle as it is, since what is altered must show in the numbers, with cases and originals for it."""

    folder: Path
    manifest: bundle.Manifest
    spec: ModelSpec
    originals: "dict[str, Reference]"
    planned: "list[Planned]"
    bound: float
    progress: CaseProgress | None
    layers: bool
    devices: dict[str, str] = field(default_factory=dict)  # where each runtime that started has run
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

    def over(
        self, chosen: dict[Runtime, str | None], device: str | None, tolerant: bool
    ) -> Iterator[CaseReport]:
        """The cases on each runtime, or why one cannot run; a graph that it cannot load is a failure.

        Raises BundleError for such a graph, unless `tolerant`.
        """
        for runtime, why in chosen.items():
            if why is not None:
                for name in self.originals:
                    yield CaseReport(EVERY, name, skipped=why, runtime=runtime.name)
                continue
            try:
                with runtime.open(self.files, device) as (where, sessions):
                    self.devices[runtime.name] = where
                    yield from self.on(runtime, LoadedBundle(self.folder, self.manifest, where, sessions))
            except BundleError as error:
                if not tolerant:
                    raise
                for name in self.originals:
                    yield CaseReport(EVERY, name, exception=str(error), runtime=runtime.name)

    def _tried(self, runtime: Runtime, loaded: LoadedBundle) -> "Iterator[tuple[str, Reference, Planned]]":
        """The cases for each original, with what listens to them."""
        from txexport.verification.cases.experts import ExpertsTaken, has_experts
        from txexport.verification.layers.probe import Probe
        from txexport.verification.references.originals import Double, Twin

        for name, original in self.originals.items():
            planned: Sequence[Planned] = self.planned
            if isinstance(original, Twin) and self.taken is None and has_experts(original.model):
                self.taken = ExpertsTaken(original.model)
            listens = self.layers and runtime.name == RUNTIME and not isinstance(original, Double)
            if isinstance(original, Twin) and listens:
                self.probe = Probe(loaded, original, self.spec, self.bound)
                planned = self.probe.through(planned)
            for case in planned:
                yield name, original, case

    def on(self, runtime: Runtime, loaded: LoadedBundle) -> Iterator[CaseReport]:
        """The cases on a runtime against each original."""
        from txexport.verification.cases.graph_runner import runner_of
        from txexport.verification.judgement import judge  # which needs PyTorch

        for name, original, case in self._tried(runtime, loaded):
            skipped = case.skipped if case.case is None else runtime.skips(self.spec, case.case)
            if case.run is None or skipped is not None:
                yield CaseReport(case.name, name, skipped=skipped, runtime=runtime.name)
                continue
            if self.progress is not None:
                self.progress(f"{case.name} ({name}, {runtime.name})")
            run = partial(judge, case.run, runner_of(loaded), original, case.case, RELATIVE)
            yield attempt(case.name, name, run, runtime.name)


def attempt(name: str, reference: str, run: Run, runtime: str | None = None) -> CaseReport:
    """The report of a case that `run` tries. Raises UnsupportedError where memory does not suffice."""
    start = time.perf_counter()

    def report(checks: list[TensorCheck], exception: str | None = None) -> CaseReport:
        seconds = round(time.perf_counter() - start, 3)
        return CaseReport(name, reference, checks, exception, runtime=runtime, seconds=seconds)

    try:
        return report(run())
    except SkipError as why:
        return CaseReport(name, reference, skipped=str(why), runtime=runtime)
    except LibraryError:
        raise
    except MemoryError:
        raise UnsupportedError(f"case '{name}' does not fit into this machine's memory") from None
    except Exception as error:  # whatever stops a case is a failure of the bundle, and is reported
        return report([], f"{type(error).__name__}: {error}")
