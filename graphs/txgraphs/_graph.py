"""One ONNX graph being put together from calls of graph functions."""

from collections import Counter
from collections.abc import Mapping, Sequence

import onnx_ir as ir
from onnxscript import GraphBuilder, OnnxFunction

from txexport.contracts import Port, Signature
from txgraphs import DOMAIN, OPSET
from txgraphs._lowering import IR_VERSIONS, lower


class Graph:
    """A graph under construction; `tensors` are the weights that its calls may ask for, by name."""

    def __init__(self, name: str, tensors: Mapping[str, ir.TensorProtocol]):
        self.graph = ir.Graph([], [], nodes=[], opset_imports={"": OPSET, DOMAIN: 1}, name=name)
        self.builder = GraphBuilder(self.graph)
        self.tensors = tensors
        self.functions: dict[str, ir.Function] = {}
        self._names: dict[OnnxFunction, str] = {}
        self._labels: Counter[str] = Counter()
        self._promised: dict[str, Port] = {}

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
        """The weight called `name`, held once however often and under whatever other name it is asked for."""
        tensor = self.tensors[name]
        return self._initializer(tensor.name or name, tensor)

    def _initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        if name not in self.graph.initializers:
            shape = ir.Shape(tensor.shape.numpy())
            value = ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)
            self.graph.initializers[name] = value
        return self.graph.initializers[name]

    def call(self, function: OnnxFunction, *arguments: ir.Value | None, under: str = "", name: str = ""):
        """One call node: `arguments`, then the weights under the prefix `under`; its output or outputs.

        A parameter `q_weight` is the weight `<under>.q.weight`; one that the spec leaves out is absent.
        The node is called `name`, numbered where others are called so, or else after the prefix.
        """
        called = self._record(function)
        parameters = [value.name for value in function.function_ir.inputs[len(arguments) :]]
        if parameters:
            known = {
                key.removeprefix(f"{under}.").replace(".", "_"): key
                for key in self.tensors
                if key.startswith(f"{under}.")
            }
            weights = [self.weight(known[p]) if p in known else None for p in parameters]
        else:
            weights = []
        label = self._numbered(name) if name else under
        outputs = [f"{label}.{value.name}" for value in function.function_ir.outputs]
        result = self.builder.call(function, *arguments, *weights, _outputs=outputs)
        node = self.graph[-1]
        node.name, node.op_type = label, called
        return result

    def _numbered(self, name: str) -> str:
        self._labels[name] += 1
        return name if self._labels[name] == 1 else f"{name}_{self._labels[name]}"

    def _record(self, function: OnnxFunction) -> str:
        """The name of `function` in this model, which holds it from now on, and those that it calls.

        The first of a name keeps it; another body under the same name is numbered.
        """
        if function in self._names:
            return self._names[function]
        nested = {f.name: self._record(f) for f in function.function_ir.get_called_functions().values()}
        body = ir.serde.deserialize_function(function.to_function_proto())
        for node in body:
            if node.domain == DOMAIN:
                node.op_type = nested[node.op_type]
        text = _text(body)
        number, name = 1, function.name
        while name in self.functions and _text(self.functions[name]) != text:
            number += 1
            name = f"{function.name}_{number}"
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


def _text(function: ir.Function) -> bytes:
    """What two functions of the same body have in common."""
    proto = ir.to_proto(function)
    proto.name = ""
    return proto.SerializeToString(deterministic=True)


def _copy(function: ir.Function) -> ir.Function:
    return ir.serde.deserialize_function(ir.to_proto(function))
