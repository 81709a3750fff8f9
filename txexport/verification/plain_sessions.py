"""Graphs as other clients open them: in sessions without the manifest's options.

What `load` and the other cases run has these options. Without them ONNX Runtime may round the activations of
a product of integers once more, as it does for blocks of integers.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from txexport.verification.bounds import largest_error
from txexport.verification.cases.graph_runner import GraphRunner
from txexport.verification.checks import TensorCheck

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Calls:
    """The calls of the graphs of a runner: the role, the inputs and the outputs of each."""

    every: list[tuple[str | None, Arrays, Arrays]] = field(default_factory=list)

    def through(self, runner: GraphRunner) -> GraphRunner:
        """The runner, whose calls are added."""
        return replace(runner, run=self._added(runner.run))

    def repeated(self, runner: GraphRunner, relative: float) -> list[TensorCheck]:
        """The checks of every output that another runner gives; `relative` bounds errors."""
        checks: dict[str, TensorCheck] = {}
        for role, inputs, expected in self.every:
            for name, output in runner.run(role, **inputs).items():
                error = _error(output, expected[name])
                check = checks.get(name, TensorCheck(name, 0, 0.0, relative))
                count = check.elements + output.size
                checks[name] = replace(check, elements=count, error=max(check.error, error))
        return list(checks.values())

    def _added(self, run: Callable[..., Arrays]) -> Callable[..., Arrays]:
        def recorded(role: str | None = None, /, **inputs: np.ndarray) -> Arrays:
            outputs = run(role, **inputs)
            self.every.append((role, inputs, outputs))
            return outputs

        return recorded


def _error(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest error; none of numbers that are equal, also where padding has none."""
    return 0.0 if np.array_equal(ours, theirs, equal_nan=True) else largest_error(ours, theirs)
