"""A bundle has the integers of its quantised checkpoint, without a second rounding."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
import tiny_checkpoint
from tiny_gguf import convert, every
from tiny_quantised import FORMATS, GPTQ, gptq, quantised, tiny_llama

import txexport
from txexport.errors import InputError
from txexport.formats import Blocks, StoredIntegers, stored_integers
from txexport.verification import verify

KERNELS = {"int-quantized": "MatMulIntegerToFloat", "llm.int8": "MatMulIntegerToFloat"}
FLOATS = ("nf4", "fp8")  # codes of floats


def blocks(bits=4, signed=False, block=32, inputs=96, seed=0, **more) -> Blocks:
    random = np.random.default_rng(seed)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1)) if signed else (0, 2**bits)
    kind = np.int8 if signed else np.uint8
    integers = random.integers(low, high, (7, inputs)).astype(kind)
    count = -(-inputs // block)
    given = {}
    if more.get("zeros"):
        given["zeros"] = random.integers(low, high, (7, count)).astype(kind)
    if more.get("minima"):
        given["minima"] = random.standard_normal((7, count)).astype(np.float32)
    if more.get("order"):
        given["order"] = random.permutation(inputs)
    return Blocks(integers, bits, random.random((7, count)).astype(np.float32) + 0.1, block, **given)


CASES = {
    "four bits": {},
    "four bits with a sign": {"signed": True},
    "zeros": {"zeros": True},
    "zeros with a sign": {"zeros": True, "signed": True},
    "three bits": {"bits": 3, "zeros": True},
    "eight bits": {"bits": 8, "zeros": True},
    "eight bits with a sign": {"bits": 8, "signed": True},
    "act-order": {"order": True, "zeros": True},
    "minima": {"minima": True},
    "one scale an output": {"block": 96, "zeros": True},
    "blocks of 48, of which 16 are fused": {"block": 48, "zeros": True},
    "a short last block": {"inputs": 80, "zeros": True},
}


@pytest.mark.parametrize("case", CASES)
def test_what_lies_there_stands_for_the_same_numbers(case):
    """As ONNX defines DequantizeLinear."""
    given = blocks(**CASES[case])
    number_format = stored_integers(given, rounds=False)
    assert number_format is not None
    shape = given.shape
    own = number_format.parts(shape)
    parts = {}
    for name, block in number_format.pack(given):
        assert block.nbytes == own[name].nbytes
        if own[name].type.bits == 4:
            flat = np.stack([block & 15, block >> 4], axis=1).reshape(-1)
            block = flat[: np.prod(own[name].shape)]
        parts[name] = block.reshape(own[name].shape)
    assert [*parts] == [*own]
    zero = parts.get("zero", np.zeros_like(parts["scale"], np.int16)).astype(np.float32)
    rows = np.arange(shape[1]) // number_format.block
    whole = (parts[""].astype(np.float32) - zero[rows]) * parts["scale"][rows]
    if "minimum" in parts:
        whole = whole - parts["minimum"][rows]
    if "order" in parts:
        whole = whole[np.argsort(parts["order"])]
    assert np.array_equal(whole.T, given.numbers())


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (blocks(), "UINT4"),
        (blocks(signed=True), "UINT4"),
        (blocks(bits=2), "UINT4"),
        (blocks(bits=8, signed=True), "INT8"),
        (blocks(bits=8), "UINT8"),
    ],
)
def test_types(given, kind):
    assert stored_integers(given, rounds=False).type.onnx == kind


def test_a_zero_beyond_four_bits_takes_eight():
    """As in GPTQ's version 1, where 15 is stored for 16."""
    given = blocks(zeros=True)
    given.zeros[3, 1] = 16
    assert stored_integers(given, rounds=False).type.onnx == "UINT8"


def test_what_no_runtime_has_blocks_for():
    assert stored_integers(blocks(block=24, inputs=96), rounds=False) is None


def test_rounding_is_the_checkpoint_s_wish():
    given = blocks(bits=8, signed=True, block=96)
    assert stored_integers(given, rounds=True) == StoredIntegers(
        stored_integers(given, rounds=False).type, 96, rounds=True
    )


@pytest.mark.parametrize("dtype", ["stored", "stored-fast"])
@pytest.mark.parametrize("method", FORMATS)
def test_every_format_runs_in_its_kernel(method, dtype, tmp_path):
    """Eight bits in blocks become float32 at load, unless activations may be rounded."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    packer, settings = FORMATS[method]
    quantised(source, tmp_path / "quantised", packer, settings)
    txexport.export(tmp_path / "quantised", tmp_path / "out", dtype=dtype)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fast.onnx")
    options.log_severity_level = 3
    path = tmp_path / "out" / "onnx" / "model_static.onnx"
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    kinds = Counter(n.op_type for n in onnx.load(tmp_path / "fast.onnx", load_external_data=False).graph.node)
    floats = FLOATS if dtype == "stored-fast" else (*FLOATS, "torchao")
    expected = "MatMul" if method in floats else KERNELS.get(method, "MatMulNBits")
    assert kinds[expected] == 7 + (expected == "MatMul")
    assert "DequantizeLinear" not in kinds


def test_float32_of_the_same_checkpoint(tmp_path):
    """Another dtype is made from the dequantised integers; two of one file name are refused."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1)
    quantised(source, tmp_path / "quantised", *FORMATS["awq"])
    with pytest.raises(InputError, match=r"^dtypes stored, float32 have files of the same names"):
        txexport.export(tmp_path / "quantised", tmp_path / "out", dtype=["stored", "float32"])
    txexport.export(tmp_path / "quantised", tmp_path / "out", dtype=["float32", "int8"])
    assert verify(tmp_path / "out", cases="quick").ok


def test_an_encoder_decoder_keeps_them_in_both_branches(tmp_path):
    sizes = {"d_model": 64, "encoder_attention_heads": 4, "decoder_attention_heads": 4}
    sizes |= {"encoder_ffn_dim": 96, "decoder_ffn_dim": 96, "encoder_layers": 1, "decoder_layers": 1}
    tiny_checkpoint.save(tmp_path / "float", "bart", **sizes)
    modules = r"q_proj|k_proj|v_proj|fc1|fc2"
    settings = GPTQ | {"sym": False}
    quantised(tmp_path / "float", tmp_path / "quantised", gptq(symmetric=False), settings, modules)
    txexport.export(tmp_path / "quantised", tmp_path / "out")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report


@pytest.mark.parametrize(("name", "kind"), {"Q4_0": 2, "Q8_0": 8, "Q4_K": 12, "Q6_K": 14}.items())
def test_gguf_keeps_its_blocks(name, kind, tmp_path):
    sizes = {"hidden_size": 256, "intermediate_size": 256, "num_attention_heads": 4, "head_dim": 64}
    tiny_checkpoint.save(tmp_path / "float", "llama", **sizes, num_hidden_layers=1)
    convert(tmp_path / "float", tmp_path / "model.gguf", every(kind))
    manifest = txexport.export(tmp_path / "model.gguf", tmp_path / "out")
    assert manifest.form.dtypes == ["stored"]
    graph = onnx.load(tmp_path / "out" / "onnx" / "model_static.onnx", load_external_data=False).graph
    made = "DequantizeLinear" if name.startswith("Q4") else "Cast"  # of eight bits float32, at load
    integers = {one.name for one in graph.initializer if one.data_type != onnx.TensorProto.FLOAT}
    assert sum(node.op_type == made and node.input[0] in integers for node in graph.node) >= 7, name
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report
