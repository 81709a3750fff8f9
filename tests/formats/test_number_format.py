"""The interface of number formats, tested with one that the project does not ship: int4 in blocks of 32.

Its layout is (in, out), it has two parts, its nodes are in two positions, and it quantises some matrices
of a model and leaves others.
"""

import json
import math
from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tiny_checkpoint
from helpers.bundle_edits import graph_path, weights_path
from helpers.project import loaded_after
from safetensors.numpy import load_file, save_file

import txexport
from txexport import bundle, families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import GraphError
from txexport.exporter import bundle_plan
from txexport.formats import FLOAT, FLOAT32, NumberType, Part, Use
from txexport.verification import bundle_contents, identity

BLOCK = 32
SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


class Int4:
    """Blocks of 32 along the input, symmetric; for products alone."""

    name, relative, private, lossless = "int4", 1e-5, False, False

    def parts(self, shape):
        outputs, inputs = shape
        packed = NumberType(onnx="INT4", safetensors="U8", numpy="u1", bits=4)
        return {"": Part(packed, (inputs, outputs)), "scale": Part(FLOAT, (inputs // BLOCK, outputs))}

    def encode(self, rows, shape):
        blocks = np.concatenate(list(rows)).T.reshape(-1, BLOCK, shape[0])  # (in / 32, 32, out)
        scale = np.abs(blocks).max(axis=1) / 7
        whole = np.rint(blocks / scale[:, None]).astype(np.int8).reshape(-1, 2) & 15
        yield "", (whole[:, 0] | whole[:, 1] << 4).astype(np.uint8)
        yield "scale", scale.astype("<f4")

    def decode(self, parts, shape):
        return np.zeros(shape, np.float32)

    def share(self, numbers, kept):
        return 0.0

    def stand(self, op, name, parts, use):
        if use != Use.PRODUCT:
            raise GraphError(f"{name} is stored as int4, of which nothing but products can be computed")
        label = f"{name}.numbers"
        return {"": op.DequantizeLinear(parts[""], parts["scale"], axis=0, block_size=BLOCK, name=label)}

    def product(self, op, x, matrix, bias):
        y = op.MatMul(x, matrix[""])
        return y if bias is None else op.Add(y, bias)

    def lookup(self, op, ids, table):
        raise AssertionError("stand has refused")


INT4 = Int4()


def read_back(matrix: np.ndarray) -> np.ndarray:
    """The dequantised numbers of a matrix (out,in)."""
    blocks = matrix.T.reshape(-1, BLOCK, len(matrix))
    scale = np.abs(blocks).max(axis=1, keepdims=True) / 7
    return (np.rint(blocks / scale) * scale).reshape(-1, len(matrix)).T.astype(np.float32)


def chosen(name: str, shape: tuple[int, ...], kept: str) -> bool:
    return ".layers." in name and len(shape) == 2 and kept not in name


@pytest.fixture
def in_int4(monkeypatch):
    """Exports store every layer's matrices as int4, but for those of an excluded layer."""

    def switch(kept: str) -> None:
        def formats_of(weights, asked, dtype):
            return {
                name: INT4 if chosen(name, weight.shape, kept) else FLOAT32
                for name, weight in weights.items()
            }

        monkeypatch.setattr(bundle_plan, "formats_of", formats_of)

    return switch


@pytest.fixture
def made(tmp_path, in_int4):
    """A checkpoint, its bundle in int4 but for layer 1, and the matrices in it."""
    source, out = tmp_path / "source", tmp_path / "out"
    tiny_checkpoint.save(source, "llama", **SIZES, num_hidden_layers=3)
    in_int4("layers.1.")
    txexport.export(source, out, task="text-generation")
    resolved = families.resolve(Checkpoint(source), None)
    taken = [name for name, weight in resolved.weights.items() if chosen(name, weight.shape, "layers.1.")]
    assert len(taken) == 2 * 7
    return source, out, resolved, taken


def session_of(path, **options) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    for name, value in options.items():
        setattr(settings, name, value)
    return ort.InferenceSession(path, settings, providers=["CPUExecutionProvider"])


def test_it_is_fused_and_stands_in_the_main_graph(made, tmp_path):
    _source, out, _resolved, taken = made
    model = onnx.load(graph_path(out), load_external_data=False)
    assert Counter(node.op_type for node in model.graph.node)["DequantizeLinear"] == len(taken)
    assert not any(n.op_type == "DequantizeLinear" for f in model.functions for n in f.node)
    names = {function.name for function in model.functions}
    assert {"decoder_block", "decoder_block_2", "linear_plain", "linear_plain_2"} <= names
    assert "decoder_block_3" in names  # the last one, of the tokens that are asked for
    assert "decoder_block_4" not in names
    session_of(graph_path(out), optimized_model_filepath=str(tmp_path / "fast.onnx"))
    fast = onnx.load(tmp_path / "fast.onnx", load_external_data=False)
    assert Counter(node.op_type for node in fast.graph.node)["MatMulNBits"] == len(taken)


def test_it_computes_with_the_numbers_that_it_keeps(made, tmp_path, monkeypatch):
    """As float32 does with a checkpoint of those numbers, in runtimes that round no further."""
    source, out, resolved, taken = made
    monkeypatch.undo()
    tensors = load_file(source / "model.safetensors")
    for name in taken:
        [tensor] = resolved.weights[name].tensors
        tensors[tensor] = read_back(tensors[tensor])
    save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    txexport.export(source, tmp_path / "expected", task="text-generation")
    plain = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = {
        "input_ids": np.array([[3, 5, 9, 4]]),
        "cache_lengths": np.array([0]),
        "logits_indices": np.array([[0, 1, 2, 3]]),
    }
    results = []
    for folder in (out, tmp_path / "expected"):
        session = session_of(graph_path(folder), graph_optimization_level=plain)
        past = {port.name: [1, port.shape[1], 8, port.shape[3]] for port in session.get_inputs()[3:]}
        zeros = {name: np.zeros(shape, np.float32) for name, shape in past.items()}
        results.append(session.run(["logits"], feeds | zeros)[0])
    found, expected = results
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


def test_its_bytes_are_proved(made):
    source, out, resolved, taken = made
    manifest, checkpoint = bundle.read(out), Checkpoint(source)
    identity.check_graphs(out, manifest, checkpoint, resolved)
    checks = bundle_contents.check_weights(out, manifest, checkpoint, resolved)
    assert all(check.ok for check in checks)
    path = weights_path(out)
    whole = path.read_bytes()
    length = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + length])
    for name, kind in ((taken[3], "U8"), (f"{taken[3]}.scale", "F32")):
        entry = header[name]
        assert entry["dtype"] == kind
        start, end = entry["data_offsets"]
        assert math.prod(entry["shape"]) * {"U8": 1, "F32": 4}[kind] == end - start
        edited = bytearray(whole)
        edited[8 + length + start] ^= 1
        path.write_bytes(edited)
        checks = bundle_contents.check_weights(out, manifest, checkpoint, resolved)
        assert [check.output for check in checks if not check.ok] == [taken[3]]


def test_a_use_that_it_has_not_is_refused(tmp_path, monkeypatch):
    def formats_of(weights, asked, dtype):
        return {name: INT4 if name.endswith("word.weight") else FLOAT32 for name in weights}

    monkeypatch.setattr(bundle_plan, "formats_of", formats_of)
    tiny_checkpoint.save(tmp_path / "source", "llama", **SIZES)
    with pytest.raises(GraphError, match=r"decoder\.embedding\.word\.weight is stored as int4"):
        txexport.export(tmp_path / "source", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_formats_need_neither_onnx_nor_pytorch():
    loaded = loaded_after("import txexport.formats")
    assert not loaded & {"torch", "onnx", "onnx_ir", "onnxscript", "onnxruntime"}
