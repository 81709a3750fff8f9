"""What components are put together from: parameters that they ask for, operators, calls, and their places."""

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import OnnxFunction

from txexport.formats import NumberFormat, Use


@dataclass(frozen=True)
class Parameter:
    """A parameter in the weights file: its format, and that one's parts by name."""

    format: NumberFormat
    parts: Mapping[str, ir.TensorProtocol]


@dataclass(frozen=True)
class Received:
    """What nodes read of a parameter: values by name, which its format knows to use."""

    format: NumberFormat
    values: Mapping[str, ir.Value]

    def product(self, op: Any, x: ir.Value, bias: ir.Value | None = None) -> ir.Value:
        """x (..., in), bias (out) -> (..., out), where the parameter is a matrix (out,in)."""
        y: ir.Value = self.format.product(op, x, self.values, bias)
        return y

    def lookup(self, op: Any, ids: ir.Value) -> ir.Value:
        """ids (...) -> rows (..., W), where the parameter is a table (V,W)."""
        rows: ir.Value = self.format.lookup(op, ids, self.values)
        return rows


@dataclass(frozen=True, eq=False)
class Recorded:
    """A function made by running its text: its body, and what that asked for.

    `called` are the functions that its calls stand for, in their order; `asked` are the parameters whose
    values are the last of its inputs, by name and use in the order in which the body asked, and the format
    that each had.
    """

    function_ir: ir.Function
    called: Sequence["Function"]
    asked: Mapping[tuple[str, Use], NumberFormat]


Function = OnnxFunction | Recorded


class Nodes(ABC):
    """What components stand in: a graph, or the body of a function."""

    @property
    @abstractmethod
    def dtype(self) -> ir.DataType:
        """The type of the numbers that it computes with."""

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
        """The parameter `name` to multiply with."""
        return self.ask(name, Use.PRODUCT)

    def table(self, name: str) -> Received:
        """The parameter `name` to read rows of."""
        return self.ask(name, Use.LOOKUP)


class Operators:
    """Standard operators by name, each call of which adds a node to a graph or body.

    `name` is what its value is called; several outputs are asked for by a list of names.
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
    """Where in a graph a component stands: its weights are those under `name`, and its call is called so."""

    graph: Nodes
    name: str

    def __truediv__(self, name: str) -> "Place":
        return Place(self.graph, f"{self.name}.{name}")

    @property
    def dtype(self) -> ir.DataType:
        """That of the graph."""
        return self.graph.dtype

    def ask(self, name: str, use: Use) -> Received:
        """The component's parameter `name`."""
        return self.graph.ask(f"{self.name}.{name}", use)

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """The component's call node, or its part `name`: its outputs."""
        return self.graph.call(function, *arguments, name=f"{self.name}.{name}" if name else self.name)
