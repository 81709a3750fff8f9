"""Standard tools accept a bundle's graphs: checks pass, and rewritten graphs compute the same."""

import numpy as np
import pytest
from helpers.client_rows import TOLERANCE, WHISPER, forward_inputs, rows_of
from helpers.rows import FEATURES, GENERATE, LABEL, MATCH, TRANSLATE

from txexport.verification.clients.process import Call

CLIENT = "tools"
ENCODERS = [*rows_of(("bert", "roberta"), (FEATURES,)), *rows_of(("vit",), (LABEL,))]
ALL = [
    *ENCODERS,
    *rows_of(("clip",), (MATCH,)),
    *rows_of(("gpt2", "llama"), (GENERATE,)),
    *rows_of(("t5", "bart"), (TRANSLATE,)),
    WHISPER,
]
MODEL = {"file": "model.onnx"}
OPSETS = (18, 19, 20, 21, 22, 23)
# Cosine of outputs after 8 and 4 bits of tiny random weights: far from a wrong graph's.
SAME_DIRECTION = {8: 0.97, 4: 0.85}


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Cosine of two tensors as vectors."""
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def outputs(process, bundle, row, call: Call) -> tuple[dict, dict]:
    """By name, the outputs of a graph before and after the tool; and all of the tool's output."""
    given, answer = process.ask(bundle, row.task, [Call("run_graph", call.arrays, MODEL), call])
    names = [name for name, value in given.values.items() if isinstance(value, np.ndarray)]
    assert names
    return {name: (given[name], answer[name]) for name in names}, {**answer.values}


@pytest.mark.parametrize("row", ALL, ids=lambda row: row.id)
def test_checker_and_strict_shape_inference_pass_every_graph(row, exported, process, record):
    record(row, "checker, strict shape inference")
    bundle = exported(row).bundle
    files = sorted(path.name for path in (bundle / "onnx").glob("*.onnx"))
    answers = process.ask(bundle, row.task, [Call("check", {}, {"file": file}) for file in files])
    assert files
    unknown = {file: answer["unknown"] for file, answer in zip(files, answers, strict=True)}
    assert unknown == {file: [] for file in files}


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_symbolic_shape_inference_passes(row, exported, process, record):
    record(row, "symbolic shape inference")
    [answer] = process.ask(exported(row).bundle, row.task, [Call("symbolic_shapes", {}, MODEL)])
    assert answer["values"] > 0


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_version_converter_leaves_the_numbers(row, exported, process, record):
    record(row, "version_converter")
    bundle, inputs = exported(row).bundle, forward_inputs(row)
    [first] = process.ask(bundle, row.task, [Call("check", {}, MODEL)])
    for opset in (opset for opset in OPSETS if opset > first["opset"]):
        pairs, _ = outputs(process, bundle, row, Call("convert_version", inputs, MODEL | {"opset": opset}))
        for name, (given, after) in pairs.items():
            np.testing.assert_allclose(after, given, rtol=0, atol=TOLERANCE, err_msg=f"{name}, opset {opset}")


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_onnxslim_leaves_the_numbers(row, exported, process, record):
    record(row, "onnxslim")
    pairs, _ = outputs(process, exported(row).bundle, row, Call("slim", forward_inputs(row), MODEL))
    for name, (given, after) in pairs.items():
        np.testing.assert_allclose(after, given, rtol=0, atol=TOLERANCE, err_msg=name)


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_float16_converter_keeps_the_direction(row, exported, process, record):
    record(row, "float16")
    pairs, _ = outputs(process, exported(row).bundle, row, Call("halve", forward_inputs(row), MODEL))
    for name, (given, after) in pairs.items():
        assert cosine(after.astype(np.float32), given) > 0.9999, name


@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_dynamic_quantisation_finds_the_products(row, exported, process, record):
    record(row, "quantize_dynamic")
    call = Call("quantize_int8", forward_inputs(row), MODEL)
    pairs, values = outputs(process, exported(row).bundle, row, call)
    assert values["nodes"]["MatMulInteger"] >= 12  # six products by weights in each of two layers
    for name, (given, after) in pairs.items():
        assert cosine(after, given) > SAME_DIRECTION[8], name


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("row", ENCODERS, ids=lambda row: row.id)
def test_nbits_quantiser_finds_the_products(row, bits, exported, process, record):
    record(row, f"{bits} bits")
    call = Call("quantize_nbits", forward_inputs(row), MODEL | {"bits": bits, "block": 16})
    pairs, values = outputs(process, exported(row).bundle, row, call)
    assert values["nodes"]["MatMulNBits"] >= 12
    for name, (given, after) in pairs.items():
        assert cosine(after, given) > SAME_DIRECTION[bits], name
