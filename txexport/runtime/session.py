"""One graph of a bundle in an engine, with checked inputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

import numpy as np

from txexport.contracts import Port
from txexport.contracts.names import INPUT_LABELS
from txexport.errors import BundleError, EngineError, InputError, first_line
from txexport.runtime.memory import BufferPool

TYPES: dict[str, type[np.generic]] = {
    "int64": np.int64,
    "float": np.float32,
    "float16": np.float16,
    "bool": np.bool_,
}


ON_CUDA = ("cuda", "tensorrt")  # the devices that keep values in CUDA's memory


class Value(Protocol):
    """An array in an engine's memory, kept from one run to the next."""

    def numpy(self) -> np.ndarray:
        """The array; a copy unless it is in the CPU's memory."""
        ...


Bound: TypeAlias = Callable[[Mapping[str, np.ndarray]], Mapping[str, Value]]


class Engine(Protocol):
    """The interface of an engine for one graph: see `engines`, and for verify `verification.runtimes`."""

    @property
    def inputs(self) -> Sequence[Port]:
        """The graph's inputs."""
        ...

    @property
    def outputs(self) -> Sequence[Port]:
        """The graph's outputs."""
        ...

    def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output by name."""
        ...

    def value(self, array: np.ndarray, memory: str) -> Value:
        """A Value of `array` in `memory`; in the CPU's memory it shares the array's data."""
        ...

    def bind(
        self,
        inputs: Mapping[str, Value],
        outputs: Mapping[str, Value],
        wanted: Sequence[str],
        memory: str,
        runs: dict[Any, Any] | None = None,
    ) -> Bound:
        """A function that runs the graph with bound values: it reads `inputs` and writes `outputs`.

        The two may be the same values. The function takes the other inputs at each call, and returns new
        values of the outputs `wanted`, in `memory`. `runs` belongs to the bound values: the engine may keep
        in it what helps later runs with them.
        """
        ...


class Loan(Protocol):
    """Buffers of a cache in a device's memory: see `engines.device_buffers`."""

    @property
    def values(self) -> Mapping[str, Any]:
        """The buffers by name."""
        ...

    @property
    def runs(self) -> dict[Any, Any]:
        """See Engine.bind."""
        ...

    def write(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Fill the buffers with arrays of their shapes."""
        ...


class Buffers(Protocol):
    """A device's memory for caches."""

    def borrow(self, shapes: Mapping[str, tuple[tuple[int, ...], type[np.generic]]]) -> Loan:
        """Buffers of these shapes and types, with any content, as long as something holds the loan."""
        ...


class Moves(Protocol):
    """Copies of values within the memory of a device: new ones, or `into` others of their shape."""

    @property
    def buffers(self) -> Buffers:
        """The device's memory for caches."""
        ...

    def rows(
        self, values: Mapping[str, Any], rows: np.ndarray, into: Mapping[str, Any] = ...
    ) -> Mapping[str, Value]:
        """The `rows` of each value (B,...), in that order; a row may be repeated."""
        ...

    def joined(
        self, first: Mapping[str, Any], second: Mapping[str, Any], into: Mapping[str, Any] = ...
    ) -> Mapping[str, Value]:
        """The rows of each value of `first`, then those of `second`."""
        ...

    def longer(
        self, values: Mapping[str, Any], capacity: int, into: Mapping[str, Any] = ...
    ) -> Mapping[str, Value]:
        """Values (B,K,C,H) with `capacity` slots, those behind their own filled with zeros."""
        ...

    def clear(self, values: Mapping[str, Any]) -> None:
        """Fill values with zeros."""
        ...


class Session:
    """One graph on one device: "cpu", "cuda", or another execution provider.

    `runtime` is the engine's name in errors. `memory` is where values stay between runs: CUDA's memory for
    graphs that run there, otherwise the CPU's, from which ONNX Runtime copies them. `buffers` holds the
    memory of caches on the CPU. `moves` copies values within a device's memory, and lends it to caches; None
    where that is the CPU's.
    """

    def __init__(
        self, engine: Engine, device: str, runtime: str = "ONNX Runtime", moves: Moves | None = None
    ):
        self.engine, self.device, self.runtime, self.moves = engine, device, runtime, moves
        self.memory = "cuda" if device in ON_CUDA else "cpu"
        self.buffers = BufferPool()
        self.inputs = {port.name: port for port in engine.inputs}
        self.outputs = {port.name: port for port in engine.outputs}

    def width(self, output: str) -> int:
        """The size of an output's last dimension. Raises BundleError where the graph leaves it open."""
        size = self.outputs[output].shape[-1]
        if not isinstance(size, int):
            raise BundleError(f"output '{output}' has a dynamic last dimension, expected a fixed one")
        return size

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output by name; integer inputs may have any width. Errors as `fit`."""
        return self.run_fitted(self.fit(inputs))

    def run_fitted(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Every output by name, for the result of `fit`. Raises EngineError where the runtime fails."""
        try:
            return self.engine.run(inputs)
        except Exception as error:  # the exceptions of runtimes share no base class
            raise EngineError(f"{self.runtime} refused: {first_line(error)}") from None

    def fit(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Inputs by name, converted to the types of the graph's inputs.

        Raises InputError for an input that is unknown, missing, negative, or of another type or shape,
        BundleError for a graph whose inputs are of a type that export does not write.
        """
        unknown, missing = inputs.keys() - self.inputs.keys(), self.inputs.keys() - inputs.keys()
        if unknown or missing:
            problems = [f"unknown {', '.join(sorted(unknown))}"] * bool(unknown)
            problems += [f"missing {', '.join(sorted(missing))}"] * bool(missing)
            raise InputError(f"inputs do not fit the graph: {'; '.join(problems)}")
        sizes: dict[int | str, tuple[int, str]] = {}
        return {name: self._fit(name, array, sizes) for name, array in inputs.items()}

    def _fit(self, name: str, array: np.ndarray, sizes: dict[int | str, tuple[int, str]]) -> np.ndarray:
        """`array` in the type of the input `name`; `sizes` maps dimensions to their size and first input."""
        port = self.inputs[name]
        if (kind := TYPES.get(port.dtype)) is None:
            raise BundleError(
                f"input '{name}' is of type {port.dtype}, which no exported graph has; export again"
            )
        try:
            array = np.asarray(array)
        except (TypeError, ValueError, OverflowError) as error:  # rows of several lengths, or no numbers
            raise InputError(f"input '{name}' is not an array: {first_line(error)}") from None
        if port.dtype == "int64" and np.issubdtype(array.dtype, np.integer):
            array = array.astype(np.int64, copy=False)
        pairs = list(zip(array.shape, port.shape, strict=False))
        same = len(port.shape) == array.ndim and all(a == b or isinstance(b, str) for a, b in pairs)
        if not same or kind != array.dtype:
            dims = ", ".join(str(dim) for dim in port.shape)
            wanted = np.dtype(kind).name
            raise InputError(f"input '{name}' is {array.dtype} {array.shape}, expected {wanted} ({dims})")
        indices = array.dtype == np.int64 and name != INPUT_LABELS
        if indices and array.size and (least := array.min()) < 0:  # would count from the end
            raise InputError(f"input '{name}' has {least}, expected 0 or more")
        for length, dim in pairs:
            size, owner = sizes.setdefault(dim, (length, name))
            if size != length:
                raise InputError(f"{dim} is {length} in input '{name}', but {size} in '{owner}'")
        return array

    def dtype(self, name: str) -> type[np.generic]:
        """The NumPy type of an input."""
        return TYPES[self.inputs[name].dtype]

    def value(self, array: np.ndarray) -> Value:
        """A Value of `array` in the session's memory; in the CPU's memory it shares the array's data."""
        return self.engine.value(array, self.memory)

    def bind(
        self,
        inputs: Mapping[str, Value],
        outputs: Mapping[str, Value],
        wanted: Sequence[str],
        memory: str | None = None,
        runs: dict[Any, Any] | None = None,
    ) -> Bound:
        """See Engine; `memory` defaults to the session's.

        A run raises EngineError where the runtime refuses.
        """
        bound = self.engine.bind(inputs, outputs, wanted, memory or self.memory, runs)

        def run(feeds: Mapping[str, np.ndarray]) -> Mapping[str, Value]:
            try:
                return bound(feeds)
            except Exception as error:  # the exceptions of runtimes share no base class
                raise EngineError(f"{self.runtime} refused: {first_line(error)}") from None

        return run

    def run_values(self, inputs: Mapping[str, Value], wanted: Sequence[str]) -> Mapping[str, Value]:
        """The outputs `wanted`, left in the session's memory."""
        return self.bind(inputs, {}, wanted)({})


def finite(outputs: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """Return `outputs`. Raises InputError where one has NaN or infinity."""
    for name, array in outputs.items():
        with np.errstate(over="ignore", invalid="ignore"):
            total = array.sum()  # one pass; a sum that overflows is checked again
        if not np.isfinite(total) and not np.isfinite(array).all():
            raise InputError(
                f"output '{name}' has NaN or infinity; run txexport verify to see whether the weights or "
                "the input are the cause"
            )
    return outputs
