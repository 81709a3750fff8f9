"""A bundle against another export of the same checkpoint, by the cases that verify has for it."""

import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from txexport.bundle import MANIFEST, files_sha256
from txexport.errors import InputError, UnsupportedError
from txexport.runtime import Model, load
from txexport.spec import ModelSpec, parameters
from txexport.spec.serialization import from_dict
from txexport.verification import environment
from txexport.verification.comparison.models import Arrays, one_sided
from txexport.verification.result import CaseReport, Report, TensorCheck, tolerance
from txexport.verification.verify_run import Progress, attempt

try:
    from txexport.verification.cases import plan
    from txexport.verification.cases.seeded import EncoderCase, SignalCase
    from txexport.verification.comparison.exported import Bundled, Exported, input_names, output_names
    from txexport.verification.judgement import judge
    from txexport.verification.references.originals import Reference, Source
except ImportError:
    raise UnsupportedError("the cases of a bundle need PyTorch, which is not installed") from None

if TYPE_CHECKING:
    from txexport.verification.comparison.compare import CompareOptions

NAMES = "inputs and outputs"
CHOSEN = {"tokens", "beam scores", "beam tokens"}  # of the cases that generate: what follows from the logits


def compare_with_bundle(a: Path, b: Path, options: "CompareOptions", progress: Progress | None) -> Report:
    """The bundle's cases against the other of the two, which may be a bundle too.

    Raises InputError where the two do not take the same inputs.
    """
    out, other = (a, b) if (a / MANIFEST).is_file() else (b, a)
    model = load(out, device=options.device, check=False)
    reference: Bundled | Exported
    if (other / MANIFEST).is_file():
        reference = Bundled(load(other, device=options.device, check=False))
    else:
        reference = Exported(other, options.device)
    _check_inputs(model, reference)
    pair = _Pair(model, reference, options)
    names = [] if isinstance(options.cases, str) else list(options.cases)
    planned = plan.plan(pair.spec, static=model.manifest.cache == "static")
    found = [attempt(NAMES, str(other), pair.names)] if not names or NAMES in names else []
    chosen: list[plan.Planned] = []
    if names != [NAMES]:
        selected = plan.select(planned, [name for name in names if name != NAMES] or options.cases)
        chosen = [case for case in planned if case.name in selected]
        found += pair.cases(chosen, progress)
    return Report(
        bundle=str(out),
        model_type=model.manifest.model_type,
        task=model.manifest.task,
        runtime=f"onnxruntime {model.device}",
        versions=environment.versions(),
        cases=found,
        environment=environment.environment(),
        bundle_sha256=files_sha256(out),
        selection=options.cases if isinstance(options.cases, str) else names,
        device=model.device,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        reach=plan.reach(pair.spec, chosen),
    )


def _check_inputs(model: Model, reference: "Bundled | Exported") -> None:
    """Raise InputError where the two are given different things, or are for different tasks."""
    if isinstance(reference, Exported):
        if model.manifest.cache is not None:
            reference.check_decoder()
    elif reference.model.manifest.task != model.manifest.task:
        tasks = f"{model.folder} is for {model.manifest.task}, {reference.name} for"
        raise InputError(f"{tasks} {reference.model.manifest.task}")
    if model.manifest.cache is not None and "encoder_model" not in model.sessions:
        return  # what a decoder is given follows from its cache
    said = one_sided(str(model.folder), input_names(model), reference.name, reference.inputs, "takes")
    if said:
        raise InputError(f"the inputs do not match: {said}")


class _Pair:
    """A bundle, its reference, and the outputs of both that are wanted."""

    def __init__(self, model: Model, reference: "Bundled | Exported", options: "CompareOptions"):
        self.model, self.reference = model, reference
        self.spec = from_dict(ModelSpec, model.manifest.spec)
        size = sum(math.prod(shape) for shape in parameters.model(self.spec).values())
        self.bound = tolerance(size) if options.tolerance is None else options.tolerance
        self.ours, theirs = output_names(model.manifest), reference.outputs
        both = self.ours & theirs
        self.said = "" if options.outputs else one_sided(str(model.folder), self.ours, reference.name, theirs)
        lost = [name for name in options.outputs if name not in both]
        if lost:
            raise InputError(f"--output names {', '.join(lost)}; both have {', '.join(sorted(both))}")
        self.common = both & set(options.outputs or both)
        own = {name for name in self.ours if name.startswith("present.") and ".encoder." not in name}
        self.caches = own <= theirs
        sources = model.manifest.graphs.get("encoder_model")
        lacking = [port.name for port in sources.outputs if port.name not in theirs] if sources else []
        if lacking:
            raise InputError(f"{reference.name} gives no {', '.join(lacking)}: export it with its past")

    def names(self) -> list[TensorCheck]:
        """Raise AssertionError for an output that only one of the two has."""
        if self.said:
            raise AssertionError(self.said)
        return [TensorCheck(name, 1, 0.0, 0.0) for name in sorted(self.common)]

    def cases(self, planned: "list[plan.Planned]", progress: Progress | None) -> Iterator[CaseReport]:
        """A report a case."""
        for case in planned:
            if case.run is None:
                yield CaseReport(case.name, self.reference.name, skipped=case.skipped)
                continue
            if progress is not None:
                progress(case.name)
            yield attempt(case.name, self.reference.name, partial(self.run, case))

    def run(self, planned: "plan.Planned") -> list[TensorCheck]:
        """The checks of one case of both outputs; padded batches are padded for the reference too."""
        case, model = planned.case, self.model
        if isinstance(case, EncoderCase):
            case = replace(case, alone=False)
        if isinstance(case, EncoderCase | SignalCase):
            model = cast(Model, _Narrowed(model, self.common))
        assert planned.run is not None
        checks = judge(planned.run, model, cast(Reference, _Narrow(self)), case, self.bound)
        kept = self.common | (CHOSEN if "logits" in self.common else set())
        return [check for check in checks if check.output in kept]


class _Narrowed:
    """A Model that gives only some of its outputs."""

    def __init__(self, model: Model, outputs: AbstractSet[str]):
        self.model, self.outputs = model, outputs

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def run(self, graph: str | None = None, /, **inputs: np.ndarray) -> Arrays:
        """See Model."""
        found = self.model.run(graph, **inputs)
        return {name: array for name, array in found.items() if name in self.outputs}


class _Narrow:
    """A reference that gives only what the bundle has."""

    def __init__(self, pair: _Pair):
        self.pair, self.name, self.caches = pair, pair.reference.name, pair.caches

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        found = self.pair.reference.encode(inputs)
        return {name: array for name, array in found.items() if name in self.pair.common}

    def decode(self, tokens: list[int], source: Source) -> Arrays:
        """See Reference."""
        found = self.pair.reference.decode(tokens, source)
        return {name: array for name, array in found.items() if name in self.pair.ours}
