"""The graphs for other clients in sessions without options, as those clients open them.

`load` and the other cases set the manifest's session options. Without them, ONNX Runtime may round the
activations of a matrix product once more, as it does for block-quantised matrices.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from txexport.verification.bounds import largest_error
from txexport.verification.checks import TensorCheck

if TYPE_CHECKING:
    from txexport.verification.cases.graph_runner import GraphRunner

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True)
class Calls:
    """Recorded calls of graphs: the role, the inputs and the outputs of each."""

    recorded: list[tuple[str | None, Arrays, Arrays]] = field(default_factory=list)

    def recording(self, runner: "GraphRunner") -> "GraphRunner":
        """A runner like `runner` that records its calls here; earlier records are dropped."""
        self.recorded.clear()
        return replace(runner, run=self._record(runner.run))

    def compare(self, runner: "GraphRunner", relative: float) -> list[TensorCheck]:
        """Repeat the calls with `runner`, and check its outputs against the records within `relative`."""
        checks: dict[str, TensorCheck] = {}
        for role, inputs, expected in self.recorded:
            for name, output in runner.run(role, **inputs).items():
                error = _error(output, expected[name])
                check = checks.get(name, TensorCheck(name, 0, 0.0, relative))
                count = check.elements + output.size
                checks[name] = replace(check, elements=count, error=max(check.error, error))
        return list(checks.values())

    def _record(self, run: Callable[..., Arrays]) -> Callable[..., Arrays]:
        def recorded(role: str | None = None, /, **inputs: np.ndarray) -> Arrays:
            outputs = run(role, **inputs)
            self.recorded.append((role, inputs, outputs))
            return outputs

        return recorded


def _error(computed: np.ndarray, expected: np.ndarray) -> float:
    """The largest error; 0 for equal arrays, in which NaN at padding is equal to NaN."""
    return 0.0 if np.array_equal(computed, expected, equal_nan=True) else largest_error(computed, expected)
