"""Judgement of one case: the bundle's numbers against the reference's, within float32's own error."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from txexport.verification.agreement import behaviour
from txexport.verification.bounds import MOST, MOST_OF_SCALAR, bound, is_scalar, largest_error
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.runs import Outcome
from txexport.verification.checks import TensorCheck, check_of
from txexport.verification.counts import kind
from txexport.verification.references.originals import Float64Twin
from txexport.verification.references.precision import SAMPLES
from txexport.verification.references.reference import Reference
from txexport.verification.router_ties import judged_by_choices

Run = Callable[[GraphRunner, Reference, Any], list[Outcome]]


def judge(
    run: Run, runner: GraphRunner, reference: Reference, case: Any, relative: float
) -> list[TensorCheck]:
    """Run a case and check every output against its bound.

    The reference also computes in float64 if an error exceeds the bound `relative`, and then the bound
    follows the measured rounding of float32; the reference Float64Twin always computes in float64. A case
    that fails is repeated with either choice of the experts that a router finds equally good. Raises
    AssertionError for an output of a graph that was compared with nothing, unless the reference lacks it.
    """
    judgement = _Judgement(run, runner, reference, case, relative)
    return judged_by_choices(judgement.checks, runner.manifest.spec)


@dataclass(frozen=True)
class _Judgement:
    """A case, the bundle and the reference that it runs on, and the smallest bound of an error."""

    run: Run
    runner: GraphRunner
    reference: Any
    case: Any
    relative: float

    def checks(self) -> list[TensorCheck]:
        """The checks of all outputs; see `judge`."""
        recorder = _Recorder(self.runner, set())
        outcomes = self.run(recorder.runner, self.reference, self.case)
        _check_compared(recorder.outputs, outcomes, self.reference)
        if isinstance(self.reference, Float64Twin):
            return self._in_float64(outcomes)
        checks = [self._check(outcome, None) for outcome in outcomes]
        failed = [outcome for outcome, check in zip(outcomes, checks, strict=True) if not check.ok]
        if not failed or not hasattr(self.reference, "in_float64") or not all(map(_excusable, failed)):
            return checks
        try:
            with self.reference.in_float64():
                exact = self._repeated(outcomes)
            return self._by_rounding(outcomes, exact, outcomes)
        except (
            RuntimeError,
            TypeError,
            ValueError,
            NotImplementedError,
        ):  # an original that computes in float32 only
            return checks

    def _in_float64(self, outcomes: list[Outcome]) -> list[TensorCheck]:
        """The checks against the reference in float64, each with the rounding of float32."""
        with self.reference.in_float64():
            exact = self.run(self.runner, self.reference, self.case)
        checks = [
            self._check(wide, _rounding(single, wide)) for single, wide in zip(outcomes, exact, strict=True)
        ]
        if all(check.ok for check in checks):
            return checks
        return self._by_rounding(outcomes, exact, exact)

    def _by_rounding(
        self, single: list[Outcome], exact: list[Outcome], checked: list[Outcome]
    ) -> list[TensorCheck]:
        """The checks of `checked`, each held to the larger of two measures of float32's rounding.

        One is the difference of the reference in float32 (`single`) and in float64 (`exact`). It depends on
        the processor, and may by chance be ten times smaller on one than on another. The other one does not:
        the effect of errors of a last bit of float32 on the reference in float64.
        """
        measured = [[_rounding(one, wide)] for one, wide in zip(single, exact, strict=True)]
        checks = self._rounded_checks(checked, measured)
        for seed in range(SAMPLES):
            if all(check.ok for check in checks):  # a larger measure would change nothing
                break
            with self.reference.perturbed(seed):
                perturbed = self._repeated(single)
            for measures, one, wide in zip(measured, perturbed, exact, strict=True):
                measures.append(_rounding(one, wide))
            checks = self._rounded_checks(checked, measured)
        return checks

    def _rounded_checks(self, outcomes: list[Outcome], measured: list[list[float]]) -> list[TensorCheck]:
        """The checks of outcomes, each held to the largest of the measures of its rounding."""
        return [
            self._check(outcome, max(filter(isfinite, measures), default=measures[0]))
            for outcome, measures in zip(outcomes, measured, strict=True)
        ]

    def _repeated(self, outcomes: list[Outcome]) -> list[Outcome]:
        """The outcomes with the reference's present numbers; the case runs again if one needs that."""
        pairs = [outcome.again() for outcome in outcomes if outcome.again is not None]
        if len(pairs) < len(outcomes):
            return self.run(self.runner, self.reference, self.case)
        return [replace(outcome, pairs=now) for outcome, now in zip(outcomes, pairs, strict=True)]

    def _check(self, outcome: Outcome, rounding: float | None) -> TensorCheck:
        """The check of one output; `rounding` is that of float32, None if it was not measured."""
        allowed = bound(self.relative, rounding, _scalar(outcome))
        check = check_of(outcome.output, outcome.pairs, allowed)
        compare = outcome.compare or partial(behaviour, self.runner.meaning(outcome.output))
        agreement = compare(outcome.pairs, allowed)
        return replace(check, rounding=rounding, behaviour=agreement, graph=outcome.graph)


@dataclass(frozen=True)
class _Recorder:
    """A runner that adds the names of all outputs of its graphs to `outputs`."""

    recorded: GraphRunner
    outputs: set[str]

    @property
    def runner(self) -> GraphRunner:
        """The runner to use."""
        return replace(self.recorded, run=self._run)

    def _run(self, graph: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        result = self.recorded.run(graph, **inputs)
        self.outputs.update(result)
        return result


def _check_compared(outputs: set[str], outcomes: list[Outcome], reference: Any) -> None:
    """Raise AssertionError for an output without an outcome that the reference does not lack."""
    compared = {outcome.output for outcome in outcomes if outcome.pairs}
    missed = sorted(name for name in outputs - compared if kind(name) not in reference.lacks)
    if missed:
        raise AssertionError(
            f"{', '.join(missed)} came out and was compared with nothing of {reference.name}"
        )


def _excusable(outcome: Outcome) -> bool:
    """True if rounding could account for an output's error, however large it is measured to be."""
    worst = max((largest_error(*pair) for pair in outcome.pairs), default=0.0)
    return worst <= (MOST_OF_SCALAR if _scalar(outcome) else MOST)


def _scalar(outcome: Outcome) -> bool:
    return all(is_scalar(expected) for _, expected in outcome.pairs)


def _rounding(single: Outcome, double: Outcome) -> float:
    """The error of the reference in float32 against itself in float64."""
    pairs = zip(single.pairs, double.pairs, strict=True)
    return max((largest_error(ours, exact) for (_, ours), (_, exact) in pairs), default=0.0)
