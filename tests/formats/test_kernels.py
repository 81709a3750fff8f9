"""Integers in ONNX Runtime: every product in the fast kernel, and rows independent of their batch."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from helpers.bundle_edits import graph_path
from onnx import inliner

import txexport
from txexport import bundle
from txexport.exporter.parameter_formats import ROUTERS

FAMILIES = [
    *("bart", "bert", "gpt2", "mixtral", "t5"),
    *(pytest.param(family, marks=pytest.mark.slow) for family in ("albert", "deberta-v2", "llama")),
]
INT8, UINT4 = onnx.TensorProto.INT8, onnx.TensorProto.UINT4


def bodies(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """A graph, and those of its branches."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from bodies(attribute.g)


def products(path: Path) -> Counter:
    """The number of products with weights in a graph as exported, by the stored type."""
    model = inliner.inline_local_functions(onnx.load(path, load_external_data=False))
    kinds: dict[str, int | None] = {}
    names: dict[str, str] = {}
    result: Counter = Counter()
    for graph in bodies(model.graph):
        for one in graph.initializer:
            kinds[one.name], names[one.name] = one.data_type, one.name
    for graph in bodies(model.graph):
        for node in graph.node:
            if node.op_type in ("DequantizeLinear", "Transpose", "Identity") and node.input[0] in kinds:
                kinds[node.output[0]] = kinds[node.input[0]]
                names[node.output[0]] = names[node.input[0]]
    for graph in bodies(model.graph):
        read = [node.input[1] for node in graph.node if node.op_type in ("MatMul", "Gemm")]
        for name in read:
            if name in kinds and not names[name].endswith(ROUTERS):
                result[onnx.TensorProto.DataType.Name(kinds[name])] += 1
    return result


def optimized(path: Path, to: Path) -> Counter:
    """The number of nodes of each operator after ONNX Runtime's optimisation."""
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(to), 3
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    graph = onnx.load(to, load_external_data=False).graph
    return Counter(node.op_type for body in bodies(graph) for node in body.node)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_product_is_fast(family, integers_of, tmp_path):
    """None dequantises its integers to float32 first, which is slower than float32 itself."""
    folder = integers_of(family)
    for dtype, graphs in bundle.read(folder).formats.items():
        for number, graph in enumerate((*graphs.native.values(), *graphs.hub.values())):
            exported = products(folder / graph.file)
            assert exported.keys() <= ({"INT8"} if dtype == "int8" else {"INT8", "UINT4"}), graph.file
            assert sum(exported.values()) > 5
            nodes = optimized(folder / graph.file, tmp_path / f"{dtype}{number}.onnx")
            assert nodes["MatMulIntegerToFloat"] == exported["INT8"], graph.file
            assert nodes["MatMulNBits"] == exported["UINT4"], graph.file
            assert nodes["DequantizeLinear"] == 0, graph.file
            once = 26 if (family, dtype) == ("mixtral", "int8") else 0  # for five experts, and gate and up
            assert nodes["QuantizeLinear"] == exported["INT8"] - once, graph.file


@pytest.mark.parametrize(
    "family", ["albert", "rt_detr", "mask2former"]
)  # equal layers, or modules called again
def test_each_product_has_initialisers_of_its_own(family, checkpoint_of, tmp_path):
    """ONNX Runtime loads no int8 weight of two products where it converts weights; int4 would be slow."""
    txexport.export(checkpoint_of(family), tmp_path / "out", dtype=["int8", "int8-fast", "int4"])
    for graphs in bundle.read(tmp_path / "out").formats.values():
        for graph in (*graphs.native.values(), *graphs.hub.values()):
            main = onnx.load(tmp_path / "out" / graph.file, load_external_data=False).graph
            parts = {one.name: one for one in main.initializer if one.data_type in (INT8, UINT4)}
            reads = Counter(name for node in main.node for name in node.input if name in parts)
            bytes_of = {str(one.external_data) for one in parts.values()}
            assert set(reads.values()) == {1}, graph.file
            assert reads.keys() == parts.keys()
            assert len(bytes_of) < len(parts), graph.file  # which are stored once
    for dtype in ("int8", "int8-fast"):
        with txexport.load(tmp_path / "out", device="cpu", dtype=dtype):
            pass


def test_routers_and_tables_of_places_stay_as_they_are(integers_of):
    """A router's rounding would select other experts."""
    path = graph_path(integers_of("mixtral"))
    held = {one.name: one.data_type for one in onnx.load(path, load_external_data=False).graph.initializer}
    routers = [name for name in held if name.endswith(ROUTERS)]
    assert len(routers) == 2
    assert {held[name] for name in routers} == {onnx.TensorProto.FLOAT}


def session_of(folder: Path) -> ort.InferenceSession:
    """A session of the native graph in int8."""
    return ort.InferenceSession(graph_path(folder), providers=["CPUExecutionProvider"])


LENGTHS = np.array([9, 3, 12, 1, 7, 12, 5])
# One row alone, some at odd positions, and all in another order.
BATCHES = [*([row] for row in range(7)), [1, 4], [3, 0], [5, 2, 6, 1, 3], [6, 5, 4, 3, 2, 1, 0]]


def ids(vocabulary: int) -> tuple[np.ndarray, np.ndarray]:
    """Seven ragged rows and their masks."""
    mask = (np.arange(LENGTHS.max()) < LENGTHS[:, None]).astype(np.int64)
    numbers = np.random.default_rng(0).integers(5, vocabulary, mask.shape)
    return np.where(mask, numbers, 1), mask


def test_an_encoder_s_row_is_the_same_alone_and_in_any_batch(integers_of):
    """Bit for bit, with the same padding: embeddings of different days can be compared."""
    session = session_of(integers_of("bert"))
    numbers, mask = ids(311)
    feeds = {"input_ids": numbers, "attention_mask": mask, "token_type_ids": np.zeros_like(mask)}
    whole = session.run(None, feeds)
    for rows in BATCHES:
        some = session.run(None, {name: array[rows] for name, array in feeds.items()})
        for found, expected in zip(some, whole, strict=True):
            assert found.tobytes() == expected[rows].tobytes(), rows


def test_a_decoder_s_row_is_the_same_alone_and_in_any_batch(integers_of):
    """For a prompt, and for the tokens after it, each row at its own position."""
    session = session_of(integers_of("gpt2"))
    numbers, _ = ids(311)
    past = {port.name: port.shape for port in session.get_inputs() if port.name.startswith("past")}

    def answers(rows: list[int]) -> list[bytes]:
        """The bytes of each row's results for a prompt and a step, with the cache up to its length."""
        count = len(rows)
        caches = {name: np.zeros((count, s[1], 16, s[3]), np.float32) for name, s in past.items()}
        last = np.repeat(np.arange(12)[None], count, axis=0)
        first = {"input_ids": numbers[rows], "cache_lengths": np.zeros(count, np.int64)}
        logits, *kept = session.run(None, first | caches | {"logits_indices": last})
        caches = dict(zip(past, kept, strict=True))
        step = {"input_ids": numbers[rows, :1], "cache_lengths": LENGTHS[rows]}
        later, *kept = session.run(None, step | caches | {"logits_indices": np.zeros((count, 1), np.int64)})
        result = []
        for place, row in enumerate(rows):
            length = LENGTHS[row] + 1
            result.append(logits[place, : LENGTHS[row]].tobytes() + later[place].tobytes())
            result[-1] += b"".join(cache[place, :, :length].tobytes() for cache in kept)
        return result

    whole = answers([*range(7)])
    for rows in BATCHES:
        assert answers(rows) == [whole[row] for row in rows], rows
