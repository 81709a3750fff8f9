"""Every small change of a family's exported graphs, judged by the cases of verify alone."""

import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import tiny_checkpoint

import txexport
from proving.changes import Change, Value, changes
from proving.exhaustive import opened
from proving.reasons import reason
from proving.remembered import Remembered
from txexport.parts import cases as seeded
from txexport.runtime.session import Session
from txexport.verification.bounds import RELATIVE
from txexport.verification.cases import plan
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.plan import QUICK, PlannedCase, computed
from txexport.verification.judgement import judge
from txexport.verification.runtimes.onnxruntime import OPTIMIZED

REFUSED, RAISED, WRONG, SURVIVED = "refused by the runtime", "raises", "wrong numbers", "survives"
LONGEST = 160  # tokens of the longest case


def tried(kind: str) -> dict[str, Any]:
    """The outcome of a family: counts by kind of change and fate, and the survivors with reasons."""
    start = time.monotonic()
    seeded.LONGEST, plan.OPERATIONS = LONGEST, 0
    outcome: dict[str, Any] = {"nodes": 0, "counts": {}, "survivors": []}
    with tempfile.TemporaryDirectory() as name:
        tiny_checkpoint.save(Path(name, "model"), kind)
        folder = Path(name, "out")
        txexport.export(Path(name, "model"), folder, inline=True, only="native")
        for _, variant, runner, original in opened(folder):
            cases = sorted(computed(variant.cases), key=lambda case: case.name not in QUICK)
            for role, graph in variant.manifest.graphs.items():
                trial = _Trial(folder / graph.file, role, runner, original, cases)
                outcome["nodes"] += len(trial.model.graph.node)
                for change, fate, why in trial.fates():
                    counts = outcome["counts"].setdefault(change.kind, {})
                    counts[fate] = counts.get(fate, 0) + 1
                    if fate == SURVIVED:
                        one = {"graph": role, "node": change.node, "operator": change.operator}
                        outcome["survivors"].append(one | {"change": change.text, "reason": why})
    return outcome | {"seconds": round(time.monotonic() - start, 1)}


class _Trial:
    """One graph of a bundle, whose changes are tried; the other graphs stay as they are."""

    def __init__(
        self, file: Path, role: str, runner: GraphRunner, original: Remembered, cases: Sequence[PlannedCase]
    ):
        self.file, self.role, self.runner, self.original, self.cases = file, role, runner, original, cases
        self.model = onnx.load(file, load_external_data=False)
        self.runs: list[tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]] = []
        for case in cases:  # which also shows that the true graph is right
            checks = judge(case.run, self._running(runner.bundle.sessions[role], self.runs), *self._of(case))
            if not all(check.ok for check in checks):
                raise AssertionError(f"the true graph fails {case.name}")

    def _of(self, case: PlannedCase) -> tuple[Any, Any, float]:
        return self.original, case.case, RELATIVE

    def _running(self, session: Session, runs: list) -> GraphRunner:
        """A runner whose graph of this role is `session`; `runs` are what that reads and gives."""

        def run(role: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
            if (role or self.role) != self.role:
                return self.runner.run(role, **inputs)
            result = session.run(inputs)
            runs.append((inputs, {name: array.copy() for name, array in result.items()}))
            return result

        return replace(self.runner, run=run)

    def values(self) -> dict[str, Value]:
        """The type and shape of every value, in the run with most numbers."""
        inputs = max((one for one, _ in self.runs), key=lambda one: sum(a.size for a in one.values()))
        return {
            name: Value(str(one.dtype), one.shape) for name, one in self.inner(self.model, inputs).items()
        }

    def inner(self, model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """All values of a graph for inputs, its weights aside."""
        shown = onnx.ModelProto()
        shown.CopyFrom(model)
        names = [name for node in model.graph.node for name in node.output if name]
        del shown.graph.output[:]
        shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        with self._written(shown) as file:
            session = ort.InferenceSession(file, options)
        taken = {one.name: inputs[one.name] for one in session.get_inputs()}
        return dict(zip(names, session.run(names, taken), strict=True)) | taken

    @contextmanager
    def _written(self, model: onnx.ModelProto) -> Iterator[Path]:
        """The file of a graph beside its weights."""
        file = self.file.with_name("changed.onnx")
        file.write_bytes(model.SerializeToString())
        try:
            yield file
        finally:
            file.unlink()

    def fates(self) -> Iterator[tuple[Change, str, str]]:
        """Each change with its fate, and the reason if it survives."""
        for change in changes(self.model, self.values()):
            fate, runs = self._fate(change)
            why = reason(change, self.model, self.runs, runs, self.inner) if fate == SURVIVED else ""
            yield change, fate, why

    def _fate(self, change: Change) -> tuple[str, list]:
        runs: list = []
        options = self.runner.manifest.session_options
        try:
            with (
                self._written(change.model) as file,
                OPTIMIZED.open({self.role: file}, "cpu", options) as (_, one),
            ):
                session = one[self.role]
        except Exception:
            return REFUSED, runs
        runner = self._running(session, runs)
        for case in self.cases:
            try:
                checks = judge(case.run, runner, *self._of(case))
            except Exception:
                return RAISED, runs
            if not all(check.ok for check in checks):
                return WRONG, runs
        return SURVIVED, runs
