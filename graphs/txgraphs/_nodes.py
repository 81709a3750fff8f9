"""Building blocks of components: requested parameters, operators, calls, and their places."""

import functools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import OnnxFunction

from txexport.formats import NumberFormat, Use


@dataclass(frozen=True)
class Parameter:
    """A parameter in the weights file: its format, and the format's parts by name."""

    format: NumberFormat
    parts: Mapping[str, ir.TensorProtocol]


@dataclass(frozen=True)
class Received:
    """The values of a parameter within a function, by name, as its format uses them."""

    format: NumberFormat
    values: Mapping[str, ir.Value]

    def product(self, op: Any, x: ir.Value, bias: ir.Value | None = None) -> ir.Value:
        """x (..., in), bias (out) -> (..., out), for a parameter that is a matrix (out,in)."""
        y: ir.Value = self.format.product(op, x, self.values, bias)
        return y

    def lookup(self, op: Any, ids: ir.Value) -> ir.Value:
        """ids (...) -> rows (..., W), for a parameter that is a table (V,W)."""
        rows: ir.Value = self.format.lookup(op, ids, self.values)
        return rows


@dataclass(frozen=True, eq=False)
class Recorded:
    """A function recorded by running its text: its body, and the parameters that it requested.

    `called` are the functions of its calls, in order. `asked` are the parameters of its last inputs, by name,
    use and number, in the order of requests, with the format of each.
    """

    function_ir: ir.Function
    called: Sequence["Function"]
    asked: Mapping[tuple[str, Use, int], NumberFormat]


Function = OnnxFunction | Recorded


class Nodes(ABC):
    """The place of components: a graph, or the body of a function."""

    @property
    @abstractmethod
    def dtype(self) -> ir.DataType:
        """The type of numbers in the computation."""

    @abstractmethod
    def ask(self, name: str, use: Use) -> Received:
        """The parameter called `name`, for that use."""

    @abstractmethod
    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """One call node: its outputs."""

    def weight(self, name: str) -> ir.Value:
        """The numbers of the parameter `name`, for any operator."""
        return self.ask(name, Use.WHOLE).values[""]

    def matrix(self, name: str) -> Received:
        """The parameter `name` as a matrix to multiply with."""
        return self.ask(name, Use.PRODUCT)

    def table(self, name: str) -> Received:
        """The parameter `name` as a table to look up rows."""
        return self.ask(name, Use.LOOKUP)


class OwnMatrices:
    """The private matrices of a graph or body: each product receives initialisers or inputs of its own.

    `copy` returns the values of a matrix for its second product, its third, and so on, by name and number.
    """

    def __init__(self, copy: Callable[[str, int], Mapping[str, ir.Value]]):
        self._copy = copy
        self._parts: dict[ir.Value, tuple[str, str]] = {}  # the names of a matrix, and of its value
        self._reads: Counter[tuple[ir.Graph, ir.Value]] = Counter()

    def add(self, name: str, values: Mapping[str, ir.Value]) -> None:
        """Note the values of the matrix `name`."""
        self._parts |= {value: (name, part) for part, value in values.items()}

    def arguments(self, branch: ir.Graph, values: Sequence[ir.Value | None]) -> list[ir.Value | None]:
        """The arguments of a call in a branch, copied where an earlier product has read a matrix there."""
        return [value if value is None else self._next(branch, value) for value in values]

    def _next(self, branch: ir.Graph, value: ir.Value) -> ir.Value:
        if value not in self._parts:
            return value
        self._reads[branch, value] += 1
        (name, part), number = self._parts[value], self._reads[branch, value]
        return value if number == 1 else self._copy(name, number)[part]


class Operators:
    """Standard operators by name; each call adds a node to a graph or body.

    `name` is the name of its output; a list of names requests several outputs.
    """

    def __init__(self, graph: ir.Graph):
        self._graph = graph

    def __getattr__(self, operator: str) -> Callable[..., Any]:
        return functools.partial(self._add, operator)

    def _add(
        self, operator: str, *inputs: ir.Value | None, name: str | list[str] = "", **attributes: Any
    ) -> Any:
        names = [name or operator] if isinstance(name, str) else name
        attributes = {
            key: ir.tensor(value) if isinstance(value, np.ndarray) else value
            for key, value in attributes.items()
        }
        outputs = [ir.Value(name=output) for output in names]
        self._graph.append(ir.node(operator, inputs, attributes, outputs=outputs, name=names[0]))
        return outputs[0] if len(outputs) == 1 else outputs


@dataclass(frozen=True)
class Place(Nodes):
    """The place of a component in a graph: the prefix `name` of its weights, and the name of its call."""

    graph: Nodes
    name: str

    def __truediv__(self, name: str) -> "Place":
        return Place(self.graph, f"{self.name}.{name}")

    @property
    def dtype(self) -> ir.DataType:
        """The number type of the graph."""
        return self.graph.dtype

    def ask(self, name: str, use: Use) -> Received:
        """The component's parameter `name`."""
        return self.graph.ask(f"{self.name}.{name}", use)

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """The component's call node, or its part `name`: its outputs."""
        return self.graph.call(function, *arguments, name=f"{self.name}.{name}" if name else self.name)
