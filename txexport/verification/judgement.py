"""A case tried: the bundle's numbers held against the reference's, within what float32 can promise."""

from collections.abc import Callable, Iterator
from dataclasses import replace
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
from txexport.verification.references.originals import Double, Reference
from txexport.verification.router_ties import judged_by_choices

Run = Callable[[GraphRunner, Reference, Any], list[Outcome]]

SAMPLES = 4  # of perturbations: one alone may leave an output nearly as it was, by chance


def judge(
    run: Run, runner: GraphRunner, reference: Reference, case: Any, relative: float
) -> list[TensorCheck]:
    """What a case comes to, as `_judged`; where it fails, by either choice of experts that are a tie."""
    judged = partial(_judged, run, runner, reference, case, relative)
    return judged_by_choices(judged, runner.manifest.spec)


def _judged(
    run: Run, runner: GraphRunner, reference: Reference, case: Any, relative: float
) -> list[TensorCheck]:
    """What a case comes to: every output's error, and the bound that it is held to.

    The reference is computed in float64 too where a bound of `relative` does not suffice, and then the bound
    follows the rounding that this shows; Double is always held against in float64. Raises AssertionError for
    an output that a graph gave and that was held against nothing, unless the reference says that it lacks it.
    """
    given: set[str] = set()
    outcomes = run(_listening(runner, given), reference, case)
    _check_compared(given, outcomes, reference)
    if isinstance(reference, Double):
        with reference.in_double():
            exact = run(runner, reference, case)
        checks = [_check(wide, relative, _rounding(one, wide)) for one, wide in _both(outcomes, exact)]
        if all(check.ok for check in checks):
            return checks
        return _by_rounding(run, runner, reference, case, relative, (outcomes, exact, exact))
    checks = [_check(outcome, relative, None) for outcome in outcomes]
    failed = [outcome for outcome, check in zip(outcomes, checks, strict=True) if not check.ok]
    if not failed or not hasattr(reference, "in_double") or not all(map(_excusable, failed)):
        return checks
    try:
        with reference.in_double():
            exact = _again(run, runner, reference, case, outcomes)
        return _by_rounding(run, runner, reference, case, relative, (outcomes, exact, outcomes))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):  # an original that knows float32 only
        return checks


def _listening(runner: GraphRunner, given: set[str]) -> GraphRunner:
    """The runner, which adds to `given` the names of all that its graphs give."""

    def run(graph: str | None = None, /, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        result = runner.run(graph, **inputs)
        given.update(result)
        return result

    return replace(runner, run=run)


def _check_compared(given: set[str], outcomes: list[Outcome], reference: Any) -> None:
    """Raise AssertionError for an output that no outcome is of, and that the reference does not lack."""
    compared = {outcome.output for outcome in outcomes if outcome.pairs}
    lost = sorted(name for name in given - compared if kind(name) not in reference.lacks)
    if lost:
        raise AssertionError(f"{', '.join(lost)} came out and was compared with nothing of {reference.name}")


def _excusable(outcome: Outcome) -> bool:
    """Whether rounding could account for an output's error, whatever it is measured to be."""
    worst = max((largest_error(*pair) for pair in outcome.pairs), default=0.0)
    return worst <= (MOST_OF_SCALAR if _scalar(outcome) else MOST)


def _scalar(outcome: Outcome) -> bool:
    return all(is_scalar(expected) for _, expected in outcome.pairs)


def _both(outcomes: list[Outcome], exact: list[Outcome]) -> Iterator[tuple[Outcome, Outcome]]:
    return zip(outcomes, exact, strict=True)


def _by_rounding(
    run: Run,
    runner: GraphRunner,
    reference: Any,
    case: Any,
    relative: float,
    outcomes: tuple[list[Outcome], list[Outcome], list[Outcome]],
) -> list[TensorCheck]:
    """The checks of outcomes, held to what float32 can promise: both measures of it, the larger one.

    `outcomes` are those in float32, in float64, and those to check. The float32 of one processor may be ten
    times nearer to float64 than another's, by chance; numbers off by a last bit tell it on every one.
    """
    single, exact, checked = outcomes
    measured = [[_rounding(one, wide)] for one, wide in _both(single, exact)]
    checks = _rounded_checks(checked, relative, measured)
    for seed in range(SAMPLES):
        if all(check.ok for check in checks):  # a larger measure would change nothing
            break
        with reference.perturbed(seed):
            other = _again(run, runner, reference, case, single)
        for known, one, wide in zip(measured, other, exact, strict=True):
            known.append(_rounding(one, wide))
        checks = _rounded_checks(checked, relative, measured)
    return checks


def _rounded_checks(
    outcomes: list[Outcome], relative: float, measured: list[list[float]]
) -> list[TensorCheck]:
    """The checks of outcomes, each held to the largest of what was `measured` of its rounding."""
    return [
        _check(outcome, relative, max(filter(isfinite, known), default=known[0]))
        for outcome, known in zip(outcomes, measured, strict=True)
    ]


def _again(
    run: Run, runner: GraphRunner, reference: Any, case: Any, outcomes: list[Outcome]
) -> list[Outcome]:
    """The outcomes with what the reference says now; the case runs again where one of them cannot tell."""
    pairs = [outcome.again() for outcome in outcomes if outcome.again is not None]
    if len(pairs) < len(outcomes):
        return run(runner, reference, case)
    return [replace(outcome, pairs=now) for outcome, now in zip(outcomes, pairs, strict=True)]


def _rounding(single: Outcome, double: Outcome) -> float:
    """What the reference's float32 is off by from its float64."""
    pairs = zip(single.pairs, double.pairs, strict=True)
    return max((largest_error(ours, exact) for (_, ours), (_, exact) in pairs), default=0.0)


def _check(outcome: Outcome, relative: float, rounding: float | None) -> TensorCheck:
    allowed = bound(relative, rounding, _scalar(outcome))
    check = check_of(outcome.output, outcome.pairs, allowed)
    says = outcome.says or partial(behaviour, outcome.output)
    return replace(check, rounding=rounding, behaviour=says(outcome.pairs, allowed), graph=outcome.graph)
