"""int8 with one scale for a whole batch: the same integers, faster kernels, and rows that a batch changes."""

from collections import Counter

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from safetensors.numpy import load_file

import txexport
from txexport.verification import verify
from txexport.verification.reports.views import format_losses

FUSED = ("DynamicQuantizeMatMul", "MatMulIntegerToFloat")


@pytest.fixture(scope="module")
def out(checkpoint_of, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fast") / "bert"
    txexport.export(checkpoint_of("bert"), folder, dtype=["int8", "int8-fast"])
    return folder


def test_every_product_is_fused_and_no_matrix_is_stored_otherwise(out, tmp_path):
    options = ort.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "fast.onnx"), 3
    path = out / "onnx" / "model_native_quantized.onnx"
    ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    fast = onnx.load(tmp_path / "fast.onnx", load_external_data=False)
    kinds = Counter(node.op_type for node in fast.graph.node)
    assert sum(kinds[kind] for kind in FUSED) == 13
    assert not {"MatMul", "MatMulInteger", "DequantizeLinear"} & kinds.keys()
    whole, at_once = (
        load_file(out / "onnx" / f"model{suffix}.onnx_data") for suffix in ("_int8", "_quantized")
    )
    assert {name for name in whole if not name.endswith(".sums")} == at_once.keys()
    assert all(np.array_equal(whole[name], at_once[name]) for name in at_once)


def test_it_is_proved_and_loses_more(out):
    report = verify(out, cases="quick")
    assert report.ok, report
    assert format_losses(report).keys() == {"int8", "int8-fast"}


def test_a_row_depends_on_its_batch(out):
    """What int8 does not, which is why that is the default."""
    ids = np.random.default_rng(0).integers(5, 300, (4, 12))
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    same = {}
    for dtype in ("int8", "int8-fast"):
        model = txexport.load(out, device="cpu", dtype=dtype)
        whole = model.bundle.run(**inputs)["last_hidden_state"]
        alone = model.bundle.run(**{name: array[:1] for name, array in inputs.items()})["last_hidden_state"]
        same[dtype] = np.array_equal(whole[:1], alone)
    assert same == {"int8": True, "int8-fast": False}
