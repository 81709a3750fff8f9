"""An engine over a function of arrays in the CPU's memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from txexport.contracts import Port
from txexport.runtime.session import Bound, Value

Arrays = Mapping[str, np.ndarray]
Compute = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class HostValue:
    """An array as a Value."""

    array: np.ndarray

    def numpy(self) -> np.ndarray:
        """See Value."""
        return self.array


class Computed:
    """An Engine over `compute`, a function of all inputs by name that returns new arrays."""

    def __init__(self, inputs: Sequence[Port], outputs: Sequence[Port], compute: Compute):
        self.inputs, self.outputs = inputs, outputs
        self._compute = compute

    def run(self, feeds: Arrays) -> dict[str, np.ndarray]:
        """See Engine."""
        result = self._compute({name: np.ascontiguousarray(array) for name, array in feeds.items()})
        return {port.name: result[port.name] for port in self.outputs}

    def value(self, array: np.ndarray, memory: str) -> HostValue:
        """See Engine."""
        return HostValue(array)

    def bind(
        self,
        inputs: Mapping[str, Value],
        outputs: Mapping[str, Value],
        wanted: Sequence[str],
        memory: str,
        runs: dict[Any, Any] | None = None,
    ) -> Bound:
        """See Engine; results are copied into the bound outputs."""

        def run(feeds: Arrays) -> Mapping[str, Value]:
            result = self.run({name: value.numpy() for name, value in inputs.items()} | dict(feeds))
            for name, value in outputs.items():
                array, bound = result[name], value.numpy()
                if array.shape != bound.shape:
                    raise ValueError(f"output '{name}' is {array.shape}, expected {bound.shape}")
                np.copyto(bound, array)
            return {name: HostValue(result[name]) for name in wanted}

        return run
