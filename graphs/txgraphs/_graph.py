"""One ONNX graph being put together from calls of graph functions."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import onnx_ir as ir
from onnxscript import GraphBuilder, OnnxFunction

from txexport.contracts import Port, Signature
from txgraphs import DOMAIN, OPSET
from txgraphs._lowering import IR_VERSIONS, lower


@dataclass(frozen=True, eq=False)
class Recorded:
    """A function made by running its text: its body, and what that asked for.

    `called` are the functions that its calls stand for, in their order; `weights` are the names of those of
    its inputs that are weights, the last ones, as the body asked for them.
    """

    function_ir: ir.Function
    called: Sequence["Function"]
    weights: Sequence[str]


Function = OnnxFunction | Recorded


class Nodes(Protocol):
    """What components stand in: a graph, or the body of a function."""

    def weight(self, name: str) -> ir.Value:
        """The weight called `name`."""

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """One call node: its outputs."""


class Graph:
    """A graph under construction; `tensors` are the weights that its calls may ask for, by name.

    `asked` are the names of all that they asked for, stored or not.
    """

    def __init__(self, name: str, tensors: Mapping[str, ir.TensorProtocol]):
        self.graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET, DOMAIN: 1}, name=name)
        self.builder = GraphBuilder(self.graph)
        self.op: Any = self.builder.op
        self.tensors = tensors
        self.asked: set[str] = set()
        self.functions: dict[str, ir.Function] = {}
        self._names: dict[Function, str] = {}
        self._labels: Counter[str] = Counter()
        self._promised: dict[str, Port] = {}

    def __truediv__(self, name: str) -> "Place":
        return Place(self, name)

    def input(self, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        """A graph input; a string in `shape` is a symbolic dimension."""
        value = ir.Value(name=name, type=ir.TensorType(dtype), shape=ir.Shape(shape))
        self.graph.inputs.append(value)
        return value

    def output(self, value: ir.Value, name: str, dtype: ir.DataType, shape: Sequence[int | str]) -> ir.Value:
        """Make `value` a graph output called `name`."""
        value.name, value.type, value.shape = name, ir.TensorType(dtype), ir.Shape(shape)
        self.graph.outputs.append(value)
        return value

    def declare(self, signature: Signature) -> dict[str, ir.Value]:
        """Make the inputs that a contract says, by name; its outputs are then promised."""
        self._promised = {port.name: port for port in signature.outputs}
        return {port.name: self.input(port.name, _dtype(port), port.shape) for port in signature.inputs}

    def add_outputs(self, values: Mapping[str, ir.Value]) -> None:
        """Make each value the output of its name that the contract says."""
        for name, value in values.items():
            port = self._promised.pop(name)
            self.output(value, name, _dtype(port), port.shape)

    def constant(self, name: str, numbers: list[int]) -> ir.Value:
        """A vector of int64."""
        return self._initializer(name, ir.tensor(numbers, dtype=ir.DataType.INT64, name=name))

    def weight(self, name: str) -> ir.Value:
        """The weight called `name`, held once however often and under whatever other name it is asked for.

        One that is not stored has no numbers: such a graph is whole, and cannot be written.
        """
        self.asked.add(name)
        tensor = self.tensors.get(name)
        return ir.Value(name=name) if tensor is None else self._initializer(tensor.name or name, tensor)

    def _initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        if name not in self.graph.initializers:
            shape = ir.Shape(tensor.shape.numpy())
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
            self.graph.initializers[name] = value
        return self.graph.initializers[name]

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """One call node, called `name` or after the function, and numbered where others are: its outputs."""
        called = self._record(function)
        label = self._numbered(name or called)
        outputs = [f"{label}.{value.name}" for value in function.function_ir.outputs]
        result = self.builder.call(function.function_ir, *arguments, _outputs=outputs)
        node = self.graph[-1]
        node.name, node.op_type = label, called
        return result

    def _numbered(self, name: str) -> str:
        self._labels[name] += 1
        return name if self._labels[name] == 1 else f"{name}_{self._labels[name]}"

    def _record(self, function: Function) -> str:
        """The name of `function` in this model, which holds it from now on, and those that it calls.

        The first of a name keeps it; another body under the same name is numbered.
        """
        if function in self._names:
            return self._names[function]
        called: Sequence[Function]
        if isinstance(function, OnnxFunction):
            body = ir.serde.deserialize_function(function.to_function_proto())
            own = {f.name: f for f in function.function_ir.get_called_functions().values()}
            called = [own[node.op_type] for node in body if node.domain == DOMAIN]
        else:
            body, called = _copy(function.function_ir), function.called
        for node, other in zip([n for n in body if n.domain == DOMAIN], called, strict=True):
            node.op_type = self._record(other)
        text = _text(body)
        number, name = 1, str(function.function_ir.name)
        while name in self.functions and _text(self.functions[name]) != text:
            number += 1
            name = f"{function.function_ir.name}_{number}"
        body.name = name
        self.functions.setdefault(name, body)
        self._names[function] = name
        return name

    def model(self, producer_version: str, opset: int = OPSET) -> ir.Model:
        """The finished model in operators of `opset`, each function in it once."""
        assert not self._promised, f"no output {', '.join(self._promised)}"
        self.graph.opset_imports[""] = opset
        return ir.Model(
            self.graph,
            ir_version=IR_VERSIONS[opset],
            producer_name="txexport",
            producer_version=producer_version,
            functions=lower(map(_copy, self.functions.values()), opset),
        )


def _dtype(port: Port) -> ir.DataType:
    return ir.DataType[port.dtype.upper()]


@dataclass(frozen=True)
class Place:
    """Where in a graph a component stands: its weights are those under `name`, and its call is called so."""

    graph: Nodes
    name: str

    def __truediv__(self, name: str) -> "Place":
        return Place(self.graph, f"{self.name}.{name}")

    def weight(self, name: str) -> ir.Value:
        """The component's weight `name`."""
        return self.graph.weight(f"{self.name}.{name}")

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """The component's call node, or its part `name`: its outputs."""
        return self.graph.call(function, *arguments, name=f"{self.name}.{name}" if name else self.name)


def _text(function: ir.Function) -> bytes:
    """What two functions of the same body have in common."""
    proto = ir.serde.serialize_function(function)
    proto.name = ""
    return proto.SerializeToString(deterministic=True)


def _copy(function: ir.Function) -> ir.Function:
    return ir.serde.deserialize_function(ir.serde.serialize_function(function))
