"""float16 and bfloat16: half the bytes, and the numbers rounded to the nearest."""

import numpy as np
import onnx
import pytest
import tiny_checkpoint
import torch
from safetensors.torch import load_file, save_file

import txexport
from txexport.errors import CheckpointError
from txexport.formats import DTYPES, Use, kept
from txexport.verification import verify
from txexport.verification.reports.views import format_losses

TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
ODD = [0.0, -0.0, 1.0, 1 + 2**-8, 1 + 3 * 2**-9, 1 + 2**-11, 1 + 3 * 2**-12, 3e-8, 5.96e-8, -65504.0, 1e-20]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("uses", [{Use.PRODUCT}, {Use.LOOKUP}, {Use.PRODUCT, Use.LOOKUP}])
def test_numbers_are_those_of_pytorch(dtype, uses, rng_numbers):
    numbers = np.concatenate([rng_numbers, np.resize(np.array(ODD, np.float32), (2, rng_numbers.shape[1]))])
    number_format = DTYPES[dtype].choose(numbers.shape, uses, head=False)
    expected = torch.from_numpy(numbers).to(TYPES[dtype]).float().numpy()
    assert np.array_equal(kept(number_format, [numbers[:3], numbers[3:]], numbers.shape), expected)


@pytest.fixture
def rng_numbers() -> np.ndarray:
    return (np.random.default_rng(3).standard_normal((9, 20)) * 10.0 ** np.arange(-10, 10) / 1e6).astype("f4")


def test_a_bundle_is_half_as_long_and_proved(tmp_path):
    tiny_checkpoint.save(tmp_path / "source", "gpt2")
    manifest = txexport.export(tmp_path / "source", tmp_path / "out", dtype=["float32", *TYPES])
    sizes = [data.bytes for data in manifest.data.values()]
    assert [*manifest.data] == [f"onnx/model{suffix}.onnx_data" for suffix in ("", "_fp16", "_bf16")]
    assert all(0.4 < size / sizes[0] < 0.62 for size in sizes[1:])
    graph = onnx.load(tmp_path / "out" / "onnx" / "model_bf16.onnx", load_external_data=False).graph
    kinds = {one.data_type for one in graph.initializer if len(one.dims) == 2}
    assert kinds == {onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT}  # positions stay as they are
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report
    assert format_losses(report).keys() == TYPES.keys()


def test_bfloat16_keeps_a_checkpoint_that_comes_in_it(tmp_path):
    tiny_checkpoint.save(tmp_path / "source", "llama")
    tensors = load_file(tmp_path / "source" / "model.safetensors")
    save_file(
        {name: tensor.bfloat16() for name, tensor in tensors.items()},
        tmp_path / "source" / "model.safetensors",
        metadata={"format": "pt"},
    )
    txexport.export(tmp_path / "source", tmp_path / "out", dtype=["float32", "bfloat16"])
    logits = []
    for dtype in ("float32", "bfloat16"):
        model = txexport.load(tmp_path / "out", dtype=dtype, device="cpu")
        empty = {
            name: np.zeros([1, port.shape[1], 4, port.shape[3]], np.float32)
            for name, port in model.sessions["model"].inputs.items()
            if name.startswith("past")
        }
        ids = {"input_ids": np.array([[5, 6, 7, 8]]), "logits_indices": np.array([[0, 1, 2, 3]])}
        result = model.bundle.run(**ids, cache_lengths=np.array([0]), **empty)
        logits.append(result["logits"])
    assert np.array_equal(*logits)


def test_a_number_that_float16_does_not_hold_is_named(tmp_path):
    tiny_checkpoint.save(tmp_path / "source", "gpt2")
    tensors = load_file(tmp_path / "source" / "model.safetensors")
    tensors["transformer.h.1.mlp.c_fc.weight"][2, 3] = 70000.0
    save_file(tensors, tmp_path / "source" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError) as caught:
        txexport.export(tmp_path / "source", tmp_path / "out", dtype="float16")
    name = "decoder.layers.1.feed_forward.up.weight"
    assert str(caught.value) == f"{name} has a number of size 7e+04, and float16 ends at 65504; use bfloat16"
    assert not (tmp_path / "out").exists()
    txexport.export(tmp_path / "source", tmp_path / "out", dtype="bfloat16")
