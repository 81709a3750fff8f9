"""Quantised matrix products of a graph: those that ONNX Runtime runs as integers, and those in float.

In a graph a quantised matrix is DequantizeLinear before MatMul. ONNX Runtime fuses the two into one fast
kernel unless another node prevents it. Unfused, results are the same, but the product is as slow as an
unquantised one, or up to fifty times slower.
"""

import json
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnxruntime as ort

from txexport.contracts import Port
from txexport.contracts.names import PAST_ENCODER_SEQUENCE_LENGTH, PAST_SEQUENCE_LENGTH
from txexport.errors import BundleError, first_line
from txexport.runtime.session import TYPES

FAST = frozenset({"MatMulIntegerToFloat", "MatMulNBits", "DynamicQuantizeMatMul", "QLinearMatMul"})
DEQUANTIZE, QUANTIZE = "DequantizeLinear", "QuantizeLinear"
CHEAP = 1 << 16  # elements of an input; a run with a larger input is too expensive
EMPTY = (PAST_SEQUENCE_LENGTH, PAST_ENCODER_SEQUENCE_LENGTH)
NULL = Path("/dev/null")
FATAL_ONLY = 4

# Of ONNX's messages, the fields that are read: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
GRAPH, NODE, INPUT, OUTPUT, KIND, ATTRIBUTE, SUBGRAPH, SUBGRAPHS = 7, 1, 1, 2, 4, 5, 6, 11


@dataclass(frozen=True)
class Kernels:
    """Products with quantised matrices in a graph after ONNX Runtime's optimisations.

    `fast` is the number of integer products; `slow` are the matrices that are dequantised at every run.
    """

    fast: int
    slow: list[str]


class Profile:
    """The kernels that ONNX Runtime runs for a single token; changes the session's `options`."""

    def __init__(self, options: ort.SessionOptions, folder: str):
        options.enable_profiling, options.profile_file_prefix = True, f"{folder}/run"

    def slow_products(self, session: ort.InferenceSession, inputs: Sequence[Port]) -> int | None:
        """The number of matrices that are dequantised; None where a run is expensive or fails.

        Runs the session for one token; it can be used as usual afterwards.
        """
        feeds = _token(inputs)
        try:
            if feeds is not None:
                session.run(None, feeds)
        except Exception:  # the user's first run reports what is wrong with the graph
            feeds = None
        path = Path(session.end_profiling())
        if feeds is None:
            return None
        events = [event["args"] for event in json.loads(path.read_text()) if event.get("cat") == "Node"]
        return sum(_is_matrix(event) for event in events)


def _token(inputs: Sequence[Port]) -> dict[str, np.ndarray] | None:
    """Inputs for one row of one token with an empty cache; None where a row is an image or a sound."""
    feeds = {}
    for port in inputs:
        shape = [dim if isinstance(dim, int) else int(dim not in EMPTY) for dim in port.shape]
        if np.prod(shape) > CHEAP or port.dtype not in TYPES:
            return None
        feeds[port.name] = np.zeros(shape, TYPES[port.dtype])
    return feeds


def _is_matrix(event: dict) -> bool:
    """Return whether a node dequantises a matrix rather than activations (B,S,W)."""
    shapes = event.get("input_type_shape") or [{}]
    return event.get("op_name") == DEQUANTIZE and any(len(shape) == 2 for shape in shapes[0].values())


def kernels(path: Path) -> Kernels:
    """The kernels of the graph at `path` on the CPU.

    Loads the graph, and writes the optimised one without its weights to a temporary folder. Raises
    BundleError for a graph that cannot be loaded.
    """
    options = ort.SessionOptions()
    options.log_severity_level = FATAL_ONLY
    options.add_session_config_entry("session.disable_prepacking", "1")
    with tempfile.TemporaryDirectory(prefix="txexport-") as folder:
        written = Path(folder) / "optimised.onnx"
        if NULL.is_char_device():
            (Path(folder) / "weights").symlink_to(NULL)
        options.optimized_model_filepath = str(written)
        prefix = "session.optimized_model_external_initializers"
        options.add_session_config_entry(f"{prefix}_file_name", "weights")
        options.add_session_config_entry(f"{prefix}_min_size_in_bytes", "0")
        try:
            ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions share no base class
            raise BundleError(f"{path} cannot be loaded: {first_line(error)}") from None
        nodes = list(_nodes(next(_fields(written.read_bytes(), GRAPH))))
    computed = {name for _, _, outputs in nodes for name in outputs}
    kinds = [kind for kind, _, _ in nodes]
    slow = [inputs[0] for kind, inputs, _ in nodes if kind == DEQUANTIZE and inputs[0] not in computed]
    return Kernels(sum(kind in FAST for kind in kinds), sorted(set(slow)))


def _nodes(graph: bytes) -> Iterator[tuple[str, list[str], list[str]]]:
    """Operator, inputs and outputs of a GraphProto's nodes, including those of branches and loops."""
    for node in _fields(graph, NODE):
        inputs, outputs = ([name.decode() for name in _fields(node, field)] for field in (INPUT, OUTPUT))
        yield next(_fields(node, KIND)).decode(), inputs, outputs
        for attribute in _fields(node, ATTRIBUTE):
            for field in (SUBGRAPH, SUBGRAPHS):
                for inner in _fields(attribute, field):
                    yield from _nodes(inner)


def _fields(message: bytes, wanted: int) -> Iterator[bytes]:
    """The values of the field `wanted` in a protobuf message; length-delimited fields only."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        field, kind = key >> 3, key & 7
        if kind == 0:
            _, place = _varint(message, place)
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            size, place = _varint(message, place)
            if field == wanted:
                yield message[place : place + size]
        place += size


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """The varint at `place` (seven bits a byte, lowest first), and the position after it."""
    number = shift = 0
    while True:
        byte = message[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
