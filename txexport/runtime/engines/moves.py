"""Copies of values that stay in a device's memory, by graphs of one node.

The graphs are written here as bytes, since running a bundle needs no onnx.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import onnxruntime as ort

from txexport.runtime.engines.device_buffers import DeviceBuffers

IR_VERSION, OPSET = 8, 17
TYPES = {"tensor(float)": 1, "tensor(float16)": 10, "tensor(int64)": 7, "tensor(bool)": 9}  # ONNX's numbers
NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
NEW: Mapping[str, ort.OrtValue] = {}
INT64, INTEGER = 7, 2  # ONNX's numbers of a tensor's and of an attribute's type
FATAL_ONLY = 4
EXPANDED = 4  # dimensions of what Expand writes

Values = Mapping[str, ort.OrtValue]


class Moves:
    """Copies of values (B,...) within the `memory` of a device, which `providers` compute.

    They are new values, or written `into` others of their shape. `buffers` lends memory of the device.
    """

    def __init__(self, providers: Sequence, memory: str):
        self._providers, self._memory = list(providers), memory
        self.buffers = DeviceBuffers(memory)
        self._sessions: dict[tuple[str, str, int], ort.InferenceSession] = {}

    def rows(self, values: Values, rows: np.ndarray, into: Values = NEW) -> dict[str, ort.OrtValue]:
        """The `rows` of each value, in that order; a row may be repeated."""
        numbers = ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(rows, np.int64), self._memory, 0)
        return {name: self._run("Gather", [value], numbers, into.get(name)) for name, value in values.items()}

    def joined(self, first: Values, second: Values, into: Values = NEW) -> dict[str, ort.OrtValue]:
        """The rows of each value of `first`, then those of `second`."""
        return {
            name: self._run("Concat", [value, second[name]], None, into.get(name))
            for name, value in first.items()
        }

    def longer(self, values: Values, capacity: int, into: Values = NEW) -> dict[str, ort.OrtValue]:
        """Values (B,K,C,H) with `capacity` slots, those behind their own filled with zeros."""
        result = {}
        for name, value in values.items():
            pads = np.array([0, 0, 0, 0, 0, 0, capacity - value.shape()[2], 0], np.int64)
            numbers = ort.OrtValue.ortvalue_from_numpy(pads)
            result[name] = self._run("Pad", [value], numbers, into.get(name))
        return result

    def clear(self, values: Values) -> None:
        """Fill values with zeros."""
        zeros = {
            kind: ort.OrtValue.ortvalue_from_numpy(np.zeros(1, NUMPY[kind]), self._memory, 0)
            for kind in {value.data_type() for value in values.values()}
        }
        for value in values.values():
            shape = ort.OrtValue.ortvalue_from_numpy(np.array(value.shape(), np.int64))
            self._run("Expand", [zeros[value.data_type()]], shape, value)

    def _run(
        self,
        operator: str,
        values: Sequence[ort.OrtValue],
        numbers: ort.OrtValue | None,
        into: ort.OrtValue | None,
    ) -> ort.OrtValue:
        key = operator, values[0].data_type(), len(values[0].shape())
        if key not in self._sessions:
            options = ort.SessionOptions()
            options.log_severity_level = FATAL_ONLY
            graph = one_node(operator, TYPES[key[1]], key[2])
            self._sessions[key] = ort.InferenceSession(graph, options, providers=self._providers)
        session = self._sessions[key]
        binding = session.io_binding()
        for place, value in enumerate(values):
            binding.bind_ortvalue_input(f"x{place}", value)
        if numbers is not None:
            binding.bind_ortvalue_input("numbers", numbers)
        if into is None:
            binding.bind_output("y", self._memory)
        else:
            binding.bind_ortvalue_output("y", into)
        session.run_with_iobinding(binding)
        result: ort.OrtValue = binding.get_outputs()[0]
        return result


@cache
def one_node(operator: str, kind: int, rank: int) -> bytes:
    """An ONNX model of one node over numbers of type `kind` in `rank` dimensions, along the first of them.

    It reads x0, a second value x1 for Concat or int64 `numbers` for others, and writes y. Expand reads one
    number and writes a cache's buffer.
    """
    both = operator == "Concat"
    inputs = {"x0": (kind, rank), **({"x1": (kind, rank)} if both else {"numbers": (INT64, 1)})}
    axis = _field(5, _field(1, b"axis") + _field(20, INTEGER)) if both else b""  # i is 0
    node = b"".join(_field(1, name.encode()) for name in inputs)
    node += _field(2, b"y") + _field(4, operator.encode()) + axis
    graph = _field(1, node) + _field(2, operator.encode())
    graph += b"".join(_field(11, _port(name, *each)) for name, each in inputs.items())
    graph += _field(12, _port("y", kind, EXPANDED if operator == "Expand" else rank))
    return _field(1, IR_VERSION) + _field(7, graph) + _field(8, _field(2, OPSET))


def _port(name: str, kind: int, rank: int) -> bytes:
    """A ValueInfoProto of `rank` dimensions of any size."""
    tensor = _field(1, kind) + _field(2, _field(1, b"") * rank)
    return _field(1, name.encode()) + _field(2, _field(1, tensor))


def _field(number: int, content: int | bytes) -> bytes:
    """A field of a protobuf message: an integer, or bytes of a message or text."""
    if isinstance(content, int):
        return _varint(number << 3) + _varint(content)
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    """An integer in protobuf's variable length: seven bits a byte, the lowest first."""
    more = number >> 7
    return bytes([number & 127 | (128 if more else 0)]) + (_varint(more) if more else b"")
