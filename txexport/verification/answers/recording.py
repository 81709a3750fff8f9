"""Recording of a reference's answers while `verify` runs its cases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from txexport.contracts.meaning import Kind
from txexport.spec import ModelSpec
from txexport.verification.answers.stored import Answers, CaseAnswers, answer, check, digest
from txexport.verification.bounds import LEAST_LOSS
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.cases.plan import QUICK, PlannedCase, computed
from txexport.verification.cases.runs import Outcome
from txexport.verification.cases.texts import BUILT_IN
from txexport.verification.checks import CaseReport
from txexport.verification.references.reference import Arrays, Reference, Source

SEEDED = QUICK - {BUILT_IN}  # the cases whose inputs can be made again without a tokenizer
LOSSES = 2.0  # bound of an output, as a multiple of its error on the machine that verifies
LEAST_OF_EXPERTS, MOST_LOSS = 0.3, 0.4

Run = Callable[[GraphRunner, Reference, Any], list[Outcome]]


class Listened:
    """A reference that adds the shapes of its outputs to `calls`."""

    def __init__(self, reference: Reference, calls: list[dict[str, list[int]]]):
        self.reference, self.calls = reference, calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reference, name)

    def encode(self, inputs: Arrays) -> Arrays:
        """See Reference."""
        return self._noted(self.reference.encode(inputs))

    def decode(self, tokens: list[int], source: Source, prompt: int | None = None) -> Arrays:
        """See Reference."""
        return self._noted(self.reference.decode(tokens, source, prompt))

    def _noted(self, outputs: Arrays) -> Arrays:
        self.calls.append({name: list(array.shape) for name, array in outputs.items()})
        return outputs


def recorded_in_float32(
    runner: GraphRunner, cases: Sequence[PlannedCase], reference: Reference, spec: ModelSpec
) -> Answers | None:
    """The answers in float32 to the cases of graphs that round activations.

    On another device other numbers are rounded up, so that an output may be off by LOSSES times its error
    here, and routers may choose other experts. Outputs with an error of MOST_LOSS here are left out.
    """
    blocks = (block for stack in spec.stacks.values() for block in stack.blocks)
    least = LEAST_OF_EXPERTS if any(block.experts for block in blocks) else LEAST_LOSS
    answered = []
    for case in computed(cases):
        if case.name not in SEEDED or case.run is None:
            continue
        calls: list[dict[str, list[int]]] = []
        answers = []
        for one in case.run(runner, Listened(reference, calls), case.case):
            ranked = runner.meaning(one.output).kind in (Kind.SCORES, Kind.VECTOR, Kind.HIDDEN)
            if not ranked or not any(expected.size for _, expected in one.pairs):
                continue
            stored = answer(case.name, one.output, one.graph, least, one.pairs)
            loss = check(case.name, stored, [ours for ours, _ in one.pairs], rounded=True).error
            if loss < MOST_LOSS:
                answers.append(replace(stored, bound=max(least, LOSSES * loss)))
        if answers:
            answered.append(CaseAnswers(case.name, digest(case.case), calls, answers))
    return Answers(reference.name, [*reference.lacks], answered, rounded=True) if answered else None


@dataclass
class Recording:
    """The answers of one reference to the quick cases of one dtype, as far as these pass.

    `least` is the smallest bound to keep: another device rounds otherwise.
    """

    reference: Reference
    least: float
    cases: list[CaseAnswers] = field(default_factory=list)
    calls: list[dict[str, list[int]]] = field(default_factory=list)
    outcomes: list[Outcome] | None = None  # of the running case

    @property
    def answers(self) -> Answers:
        """The answers to all cases so far."""
        return Answers(self.reference.name, [*self.reference.lacks], self.cases)

    def through(self, case: PlannedCase) -> Run:
        """The function that runs a case, and also keeps what comes out and the shapes of what is expected.

        `judge` may run it again, with other numbers of the reference; the first ones are kept.
        """
        assert case.run is not None
        run, self.outcomes = case.run, None
        if case.name not in SEEDED or not computed([case]):
            return run

        def recorded(runner: GraphRunner, reference: Reference, inputs: Any) -> list[Outcome]:
            if self.outcomes is not None:
                return run(runner, reference, inputs)
            calls: list[dict[str, list[int]]] = []
            self.outcomes = run(runner, Listened(reference, calls), inputs)
            self.calls = [*calls]  # without those of later runs
            return self.outcomes

        return recorded

    def keep(self, case: PlannedCase, report: CaseReport) -> None:
        """Keep the answers to the case that has just run, if it passed, by these too."""
        outcomes, self.outcomes = self.outcomes, None
        if outcomes is None or not report.ok:
            return
        allowed: Mapping[tuple[str, str | None], float] = {
            (one.output, one.graph): one.tolerance for one in report.checks
        }
        answers = []
        for one in outcomes:
            if any(expected.size for _, expected in one.pairs):
                bound = max(self.least, allowed.get((one.output, one.graph), 0.0))
                answers.append(answer(case.name, one.output, one.graph, bound, one.pairs))
                if not check(case.name, answers[-1], [ours for ours, _ in one.pairs]).ok:
                    return  # as after a tie of a router
        self.cases.append(CaseAnswers(case.name, digest(case.case), self.calls, answers))
