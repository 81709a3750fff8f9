"""The exported graphs of a tiny model beside transformers' class, in every case of a bounded size."""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tiny_checkpoint

import txexport
from proving.bounded import Bounded
from proving.remembered import Remembered
from txexport.errors import first_line
from txexport.runtime.loaded_bundle import LoadedBundle
from txexport.verification.bounds import RELATIVE
from txexport.verification.cases.graph_runner import GraphRunner, runner_of
from txexport.verification.cases.runs import Outcome
from txexport.verification.cases.sources import Pairs
from txexport.verification.judgement import Run, judge
from txexport.verification.runtimes.onnxruntime import OPTIMIZED
from txexport.verification.verify_arguments import VerifyArguments
from txexport.verification.verify_plan import VariantPlan, plan_of

SHOWN = 5  # failed cases of a kind
Change = Callable[[Path], None]


@contextmanager
def bundles(kind: str, change: Change | None = None) -> Iterator[list[Path]]:
    """Folders with the graphs of a family: over a static cache and for other clients, over a growing one.

    `change` is called with each folder.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_checkpoint.save(folder / "model", kind)
        manifest = txexport.export(folder / "model", folder / "out")
        result = [folder / "out"]
        if manifest.cache == "static":
            txexport.export(folder / "model", folder / "dynamic", cache="dynamic", only="native")
            result.append(folder / "dynamic")
        for one in result if change is not None else ():
            change(one)
        yield result


def opened(folder: Path, cases: str = "full") -> Iterator[tuple[str, VariantPlan, GraphRunner, Remembered]]:
    """Each kind of graphs in a folder, loaded, with the original; `cases` are those that are planned."""
    plan = plan_of(VerifyArguments(folder, reference="transformers", cases=cases, allow_edited=True))
    for variant in plan.variants:
        [original] = variant.references.values()
        files = {role: folder / graph.file for role, graph in variant.manifest.graphs.items()}
        with OPTIMIZED.open(files, "cpu", variant.manifest.session_options) as (device, sessions):
            runner = runner_of(LoadedBundle(folder, variant.manifest, device, sessions))
            cache = variant.manifest.cache
            name = variant.name if cache is None or variant.name == "hub" else f"{variant.name} {cache}"
            yield name, variant, runner, Remembered(original)


def tried(kind: str, change: Change | None = None) -> dict[str, Any]:
    """The outcome of a family: the cases of each kind of graphs, and those that failed."""
    start = time.monotonic()
    outcome: dict[str, Any] = {"graphs": {}, "runs": 0, "numbers": 0, "worst": 0.0, "failed": []}
    with bundles(kind, change) as folders:
        for folder in folders:
            for name, variant, runner, original in opened(folder):
                _add(outcome, name, variant, runner, original)
    return outcome | {"seconds": round(time.monotonic() - start, 1)}


def _add(
    outcome: dict[str, Any], name: str, variant: VariantPlan, runner: GraphRunner, original: Remembered
) -> None:
    """Add the cases of one kind of graphs to the outcome of a family."""
    counts: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    reasons: dict[str, str] = {}

    def run(*role: str, **inputs: Any) -> Any:
        outcome["runs"] += 1
        return runner.run(*role, **inputs)

    counted = replace(runner, run=run)
    spec = original.original.spec
    for what, case in Bounded(spec, variant.manifest, variant.cases).cases():
        if case.run is None:
            reasons[f"{what}: {case.skipped}"] = ""
            continue
        counts[what] += 1
        try:
            checks = judge(partial(_merged, case.run), counted, original, case.case, RELATIVE)
            wrong = [f"{one.output} is off by {one.error:.1e}" for one in checks if not one.ok]
            outcome["numbers"] += sum(one.elements for one in checks)
            outcome["worst"] = max(
                [outcome["worst"], *(one.error / one.tolerance for one in checks if one.tolerance)]
            )
        except Exception as error:
            wrong = [f"{type(error).__name__}: {first_line(error)}"]
        if wrong:
            failed[what] += 1
            if failed[what] <= SHOWN:
                outcome["failed"].append(f"{name}, {case.name}: {', '.join(wrong)}")
    outcome["graphs"][name] = dict(counts) | ({"left": [*reasons]} if reasons else {})
    if failed:
        outcome.setdefault("wrong", {})[name] = dict(failed)


def _merged(run: Run, *arguments: Any) -> list[Outcome]:
    """The outcomes of a case, with all vectors of one size in a pair of their own: fewer, larger pairs."""
    return [replace(one, pairs=_in_one(one.pairs)) for one in run(*arguments)]


def _in_one(pairs: Pairs) -> Pairs:
    """Pairs of vectors, joined if they are of the same size; others as they are."""
    vectors: dict[int, Pairs] = {}
    others: Pairs = []
    for one, other in pairs:
        if one.shape == other.shape and one.ndim in (2, 3) and one.shape[-1] > 1:
            size = one.shape[-1]
            vectors.setdefault(size, []).append((one.reshape(-1, size), other.reshape(-1, size)))
        else:
            others.append((one, other))
    joined = [[*zip(*of_size, strict=True)] for of_size in vectors.values()]
    return [*[(np.concatenate(one), np.concatenate(other)) for one, other in joined], *others]
