"""A bundle against another export of the same checkpoint, by the cases of verify."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from txexport import bundle
from txexport.bundle import files_sha256
from txexport.bundle.manifest import MANIFEST
from txexport.contracts import cache_names, roles
from txexport.contracts.layer_outputs import kind_of
from txexport.contracts.names import LOGITS
from txexport.errors import InputError, needed_for
from txexport.parts import parameters
from txexport.runtime.loaded_bundle import LoadedBundle, open_bundle
from txexport.verification import environment
from txexport.verification.attempt import CaseProgress, attempt
from txexport.verification.bounds import tolerance
from txexport.verification.checks import INPUTS_AND_OUTPUTS, CaseReport, TensorCheck
from txexport.verification.comparison.models import Arrays, one_sided, one_sided_outputs
from txexport.verification.comparison.options import CompareOptions
from txexport.verification.counts import CACHES
from txexport.verification.result import Report

with needed_for("comparing with a bundle"):
    from txexport.parts.cases import EncoderCase
    from txexport.parts.part import SignalCase
    from txexport.verification.cases import plan
    from txexport.verification.cases.graph_runner import GraphRunner, runner_of
    from txexport.verification.comparison.exported import Bundled, Exported, input_names, output_names
    from txexport.verification.judgement import judge
    from txexport.verification.references.reference import Source

CHOSEN = {"tokens", "beam scores", "beam tokens"}  # outputs of generation, which follow from the logits


def compare_with_bundle(a: Path, b: Path, options: CompareOptions, progress: CaseProgress | None) -> Report:
    """Run the bundle's cases against the other side, which may be a bundle too.

    Raises InputError if the two have different inputs.
    """
    out, other = (a, b) if (a / MANIFEST).is_file() else (b, a)
    loaded = open_bundle(out, device=options.device, check=False)
    reference: Bundled | Exported
    if (other / MANIFEST).is_file():
        reference = Bundled(open_bundle(other, device=options.device, check=False))
    else:
        reference = Exported(other, options.device)
    _check_inputs(loaded, reference)
    pair = _Pair(loaded, reference, options)
    names = [] if isinstance(options.cases, str) else list(options.cases)
    form = loaded.manifest.form
    planned = plan.plan(pair.spec, static=loaded.manifest.cache == "static", outputs=form.outputs)
    result = (
        [attempt(INPUTS_AND_OUTPUTS, str(other), pair.names)]
        if not names or INPUTS_AND_OUTPUTS in names
        else []
    )
    chosen: list[plan.PlannedCase] = []
    if names != [INPUTS_AND_OUTPUTS]:
        selected = plan.select(
            planned, [name for name in names if name != INPUTS_AND_OUTPUTS] or options.cases
        )
        chosen = [case for case in planned if case.name in selected]
        result += pair.cases(chosen, progress)
    return Report(
        bundle=str(out),
        model_type=loaded.manifest.model_type,
        task=loaded.manifest.task,
        runtime=f"onnxruntime {loaded.device}",
        versions=environment.versions(),
        cases=result,
        environment=environment.environment(),
        bundle_sha256=files_sha256(out),
        selection=options.cases if isinstance(options.cases, str) else names,
        device=loaded.device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        reach=plan.reach(pair.spec, chosen),
    )


def _check_inputs(loaded: LoadedBundle, reference: "Bundled | Exported") -> None:
    """Raise InputError if the two have different inputs or tasks."""
    if isinstance(reference, Exported):
        if loaded.manifest.cache is not None:
            reference.check_decoder()
    elif reference.runner.manifest.task != loaded.manifest.task:
        tasks = f"{loaded.folder} is for {loaded.manifest.task}, {reference.name} for"
        raise InputError(f"{tasks} {reference.runner.manifest.task}")
    if loaded.manifest.cache is not None and not loaded.is_encoder_decoder:
        return  # the inputs of a decoder depend on its cache
    ours = input_names(loaded.manifest)
    message = one_sided(str(loaded.folder), ours, reference.name, reference.inputs, "takes")
    if message:
        raise InputError(f"the inputs do not match: {message}")


class _Pair:
    """A bundle, its reference, and the outputs to compare."""

    def __init__(self, loaded: LoadedBundle, reference: "Bundled | Exported", options: CompareOptions):
        self.loaded, self.reference = loaded, reference
        self.spec = bundle.spec_of(loaded.folder, loaded.manifest)
        size = sum(math.prod(shape) for shape in parameters(self.spec).values())
        sides = [loaded.manifest, *([reference.runner.manifest] if isinstance(reference, Bundled) else [])]
        widest = max(one.form.dtype(one.dtype).relative for one in sides)
        self.bound = max(tolerance(size), widest) if options.tolerance is None else options.tolerance
        self.ours, theirs = output_names(loaded.manifest), reference.outputs
        both = self.ours & theirs
        self.one_sided = (
            ""
            if options.outputs
            else one_sided_outputs(str(loaded.folder), self.ours, reference.name, theirs)
        )
        unknown = [name for name in options.outputs if name not in both]
        if unknown:
            raise InputError(f"--output names {', '.join(unknown)}; both have {', '.join(sorted(both))}")
        self.common = both & set(options.outputs or both)
        caches = {n for n in self.ours if cache_names.is_present(n) and not cache_names.is_cross(n)}
        self.lacks: Mapping[str, str] = (
            {} if caches <= theirs else {CACHES: f"{reference.name} gives no keys and values"}
        )
        sources = loaded.manifest.graphs.get(roles.ENCODER)
        lacking = [port.name for port in sources.outputs if port.name not in theirs] if sources else []
        if lacking:
            raise InputError(f"{reference.name} gives no {', '.join(lacking)}: export it with its past")

    def names(self) -> list[TensorCheck]:
        """Raise AssertionError for an output of one side alone."""
        if self.one_sided:
            raise AssertionError(self.one_sided)
        return [TensorCheck(name, 1, 0.0, 0.0) for name in sorted(self.common)]

    def cases(self, planned: "list[plan.PlannedCase]", progress: CaseProgress | None) -> Iterator[CaseReport]:
        """The report of each case."""
        for case in planned:
            if case.run is None:
                yield CaseReport(case.name, self.reference.name, skipped=case.skipped)
                continue
            if progress is not None:
                progress(case.name)
            yield attempt(case.name, self.reference.name, partial(self.run, case))

    def run(self, planned: "plan.PlannedCase") -> list[TensorCheck]:
        """The checks of one case; padded batches are padded for the reference too."""
        case, runner = planned.case, runner_of(self.loaded)
        if isinstance(case, EncoderCase):
            case = replace(case, alone=False)
        if isinstance(case, EncoderCase | SignalCase):
            runner = replace(
                runner, run=partial(self.narrowed, runner), left_out=frozenset(self.ours - self.common)
            )
        else:
            runner = replace(runner, run=partial(self.without_layers, runner))
        assert planned.run is not None
        checks = judge(planned.run, runner, _Narrow(self), case, self.bound)
        wanted = self.common | (CHOSEN if LOGITS in self.common else set())
        return [check for check in checks if check.output in wanted]

    def narrowed(self, runner: GraphRunner, graph: str | None = None, /, **inputs: np.ndarray) -> Arrays:
        """The wanted outputs of the bundle's graph."""
        result = runner.run(graph, **inputs)
        return {name: array for name, array in result.items() if name in self.common}

    def without_layers(
        self, runner: GraphRunner, graph: str | None = None, /, **inputs: np.ndarray
    ) -> Arrays:
        """The outputs of the bundle's graph, without those of every layer that are not wanted."""
        result = runner.run(graph, **inputs)
        return {name: a for name, a in result.items() if kind_of(name) is None or name in self.common}


class _Narrow:
    """A reference with only the outputs of the bundle."""

    def __init__(self, pair: _Pair):
        self.pair, self.name = pair, pair.reference.name
        self.lacks: Mapping[str, str] = pair.lacks

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        result = self.pair.reference.encode(inputs)
        return {name: array for name, array in result.items() if name in self.pair.common}

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        result = self.pair.reference.decode(tokens, source, prompt)
        return {name: array for name, array in result.items() if name in self.pair.ours}
