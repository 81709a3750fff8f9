"""One ONNX graph, built by calls of graph functions."""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import onnx
import onnx_ir as ir
from onnxscript import GraphBuilder, OnnxFunction

from txexport.contracts import Port, Signature, cache_names, layer_outputs
from txexport.formats import FLOAT32, Use, part_name
from txgraphs import DOMAIN, OPSET
from txgraphs._constants import make_tensors
from txgraphs._lowering import IR_VERSIONS, lower, part_relu
from txgraphs._nodes import Function, Nodes, Operators, OwnMatrices, Parameter, Place, Received


class Graph(Nodes):
    """A graph under construction; `stored` are the parameters that its calls may request, by name.

    `uses` are the uses of all requested parameters, stored or not; a graph whose `stored` is None has these
    alone, and no functions. `promised` are outputs still to be added,
    `asked` the kinds of outputs of every layer among them. A `captured` graph has no branches, and copies no
    values between the processor and a device.
    """

    def __init__(
        self,
        name: str,
        stored: Mapping[str, Parameter] | None,
        dtype: ir.DataType = ir.DataType.FLOAT,
        captured: bool = False,
    ):
        self.graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET, DOMAIN: 1}, name=name)
        self.builder = GraphBuilder(self.graph)
        self.op: Any = self.builder.op
        self.stored, self._dtype, self.captured = stored or {}, dtype, captured
        self._has_functions = stored is not None
        self.uses: dict[str, set[Use]] = {}
        self._standing: dict[tuple[str, Use], Mapping[str, ir.Value]] = {}
        self._matrices = OwnMatrices(lambda name, number: self._stand(name, Use.PRODUCT, f"{number}/"))
        self.functions: dict[str, ir.Function] = {}
        self._names: dict[Function, str] = {}
        self._labels: Counter[str] = Counter()
        self.promised: dict[str, Port] = {}
        self.asked: frozenset[str] = frozenset()

    def __truediv__(self, name: str) -> "Place":
        return Place(self, name)

    @property
    def dtype(self) -> ir.DataType:
        """See Nodes."""
        return self._dtype

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
        """Make the inputs of a contract, by name, as the graph computes with them; its outputs are promised.

        The contract's floats are float32, those of caches have the number type of the graph.
        """
        self.promised = {port.name: port for port in signature.outputs}
        self.asked = layer_outputs.kinds(signature.outputs)
        return {port.name: self._declared(port) for port in signature.inputs}

    def _declared(self, port: Port) -> ir.Value:
        """The input of a port, in the graph's number type."""
        value = self.input(port.name, self._type(port), port.shape)
        if value.dtype in (self.dtype, ir.DataType.INT64, ir.DataType.BOOL):
            return value
        return self.op.Cast(value, to=self.dtype)

    def add_outputs(self, values: Mapping[str, ir.Value]) -> None:
        """Make each value the contract's output of that name."""
        for name, value in values.items():
            port = self.promised.pop(name)
            kind = self._type(port)
            if kind == ir.DataType.FLOAT and self.dtype != kind:
                value = self.op.Cast(value, to=kind)
            self.output(value, name, kind, port.shape)

    def _type(self, port: Port) -> ir.DataType:
        cached = cache_names.is_past(port.name) or cache_names.is_present(port.name)
        return self.dtype if cached else ir.DataType[port.dtype.upper()]

    def constant(self, name: str, numbers: list[int]) -> ir.Value:
        """A vector of int64."""
        return self._initializer(name, ir.tensor(numbers, dtype=ir.DataType.INT64, name=name))

    def ask(self, name: str, use: Use) -> Received:
        """The parameter called `name`, which is in the graph once, however many names and requests it has.

        If its format is private, each name and each product has initialisers of its own. A parameter that is
        not stored has no numbers: such a graph is complete, but cannot be written.
        """
        self.uses.setdefault(name, set()).add(use)
        stored = self.stored.get(name)
        if stored is None:
            return Received(FLOAT32, {"": ir.Value(name=name)})
        values = self._stand(name, use)
        if stored.format.private and use is Use.PRODUCT:
            self._matrices.add(name, values)
        return Received(stored.format, values)

    def _stand(self, name: str, use: Use, prefix: str = "") -> Mapping[str, ir.Value]:
        """The values of a stored parameter, made at the first request for initialisers of that prefix."""
        stored = self.stored[name]
        parts = {
            part: self._initializer(prefix + self._held(stored, name, part), tensor)
            for part, tensor in stored.parts.items()
        }
        held = str(next(iter(parts.values())).name)
        if (held, use) not in self._standing:
            self._standing[held, use] = stored.format.stand(Operators(self.graph), held, parts, use)
        return self._standing[held, use]

    def _held(self, stored: Parameter, name: str, part: str) -> str:
        """The name of the initialiser of a parameter's part: the stored one, or a name of its own."""
        return part_name(name, part) if stored.format.private else stored.parts[part].name or name

    def _initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        if name not in self.graph.initializers:
            shape = ir.Shape(tensor.shape.numpy())
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
            self.graph.initializers[name] = value
        return self.graph.initializers[name]

    def call(self, function: Function, *arguments: ir.Value | None, name: str = "") -> Any:
        """One call node, named `name` or after the function, numbered if the name is taken: its outputs."""
        called = self._record(function) if self._has_functions else str(function.function_ir.name)
        label = self._numbered(name or called)
        outputs = [f"{label}.{value.name}" for value in function.function_ir.outputs]
        values = self._matrices.arguments(self.graph, arguments)
        result = self.builder.call(function.function_ir, *values, _outputs=outputs)
        node = self.graph[-1]
        node.name, node.op_type = label, called
        return result

    def choose(
        self,
        condition: ir.Value,
        then: Sequence[tuple[ir.Value, ...]],
        other: Sequence[tuple[ir.Value, ...]],
    ) -> list[tuple[ir.Value, ...]]:
        """The pairs `then` if `condition`, of one element, is true, and else `other`: one If for all."""
        label = self._numbered("chosen")
        branches = [_given_on(f"{label}.{name}", pairs) for name, pairs in (("then", then), ("else", other))]
        outputs = [ir.Value(name=f"{label}.{number}") for number in range(2 * len(then))]
        attributes = dict(zip(("then_branch", "else_branch"), branches, strict=True))
        self.graph.append(ir.node("If", [condition], attributes, outputs=outputs, name=label))
        return list(zip(outputs[::2], outputs[1::2], strict=True))

    def _numbered(self, name: str) -> str:
        self._labels[name] += 1
        return name if self._labels[name] == 1 else f"{name}_{self._labels[name]}"

    def _record(self, function: Function) -> str:
        """The name of `function` in this model, to which it and the functions that it calls are added.

        The first function of a name keeps it; another body with that name gets a number.
        """
        if function in self._names:
            return self._names[function]
        called: Sequence[Function]
        if isinstance(function, OnnxFunction):
            body = ir.serde.deserialize_function(_scripted(function))
            own = {f.name: f for f in function.function_ir.get_called_functions().values()}
            called = [own[node.op_type] for node in body.all_nodes() if node.domain == DOMAIN]
        else:
            body, called = function.function_ir.clone(), function.called
        for node, other in zip([n for n in body.all_nodes() if n.domain == DOMAIN], called, strict=True):
            node.op_type = self._record(other)
        number, name = 1, str(function.function_ir.name)
        while name in self.functions and _text(self.functions[name]) != _text(body):
            number += 1
            name = f"{function.function_ir.name}_{number}"
        body.name = name
        self.functions.setdefault(name, body)
        self._names[function] = name
        return name

    def model(self, producer_version: str, opset: int = OPSET) -> ir.Model:
        """The finished model with operators of `opset` and each function once; it cannot be extended."""
        assert self._has_functions
        assert not self.promised, f"no output {', '.join(self.promised)}"
        self.graph.opset_imports[""] = opset
        functions = lower(self.functions.values(), opset)
        if any(node.op_type == "DequantizeLinear" for node in self.graph):
            for function in functions:
                part_relu(function)
        for nodes in (self.graph, *functions):
            make_tensors(nodes, self.dtype)
            for node in nodes:
                node.metadata_props.clear()  # notes of the builder: modules, and types it could not infer
        return ir.Model(
            self.graph,
            ir_version=IR_VERSIONS[opset],
            producer_name="txexport",
            producer_version=producer_version,
            functions=functions,
        )


def _given_on(name: str, pairs: Sequence[tuple[ir.Value, ...]]) -> ir.Graph:
    """A branch that returns values of the enclosing graph."""
    values = [value for pair in pairs for value in pair]
    nodes = [
        ir.node("Identity", [value], outputs=[ir.Value(name=f"{name}.{number}")], name=f"{name}.{number}")
        for number, value in enumerate(values)
    ]
    return ir.Graph([], [node.outputs[0] for node in nodes], nodes=nodes, name=name)


def _text(function: ir.Function) -> bytes:
    """The serialised body of a function, which is equal for functions of the same body."""
    proto = ir.serde.serialize_function(function)
    proto.name = ""
    return proto.SerializeToString(deterministic=True)


@functools.cache
def _scripted(function: OnnxFunction) -> onnx.FunctionProto:
    """The FunctionProto of a script, cached because the conversion is slow."""
    return function.to_function_proto()
