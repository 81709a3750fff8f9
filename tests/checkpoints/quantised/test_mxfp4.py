"""MXFP4 tensors of experts: every number bit for bit, against transformers too."""

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import save_file
from tiny_quantised import edit, quantised_experts, tiny_gpt_oss

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint, read_header
from txexport.checkpoints.quantised import mxfp4
from txexport.checkpoints.quantised.module import by_module
from txexport.errors import CheckpointError
from txexport.inspection import inspect
from txexport.verification import verify

LEVELS = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
NAME = "model.layers.0.mlp.experts"


@pytest.fixture
def stored(tmp_path):
    """Three experts of (6,64): a file, and the two tensors."""
    random = np.random.default_rng(0)
    packed = torch.from_numpy(random.integers(0, 256, (3, 6, 2, 16), np.uint8))
    scales = torch.from_numpy(random.integers(110, 130, (3, 6, 2)).astype(np.uint8))
    scales[0, 0, 0], scales[0, 0, 1] = 0, 250
    tensors = {f"{NAME}.up_proj_blocks": packed, f"{NAME}.up_proj_scales": scales}
    save_file(tensors, tmp_path / "model.safetensors")
    return tmp_path, packed, scales


def experts(folder):
    [module] = by_module(read_header(folder / "model.safetensors"))
    return mxfp4.experts(module, "up_proj")


def test_numbers_are_the_formats_own(stored):
    folder, packed, scales = stored
    matrices = experts(folder).matrices
    assert len(matrices) == 3
    for e, matrix in enumerate(matrices):
        expected = np.empty((6, 64), np.float32)
        for n in range(6):
            for k in range(64):
                octet = int(packed[e, n, k // 32, k % 32 // 2])
                code = octet & 15 if k % 2 == 0 else octet >> 4
                number = LEVELS[code & 7] * 2.0 ** (int(scales[e, n, k // 32]) - 127)
                expected[n, k] = -number if code & 8 else number
        assert matrix.shape == (6, 64)
        [rows] = matrix.rows()
        assert np.array_equal(rows, expected)
        assert np.array_equal(matrix.blocks().numbers(), expected)
        assert (matrix.blocks().bits, matrix.blocks().block) == (8, 32)


def test_transformers_makes_the_same_of_them(stored):
    """It returns (experts,in,out), and differs where an exponent is below the normal range of float32."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    folder, packed, scales = stored
    original = convert_moe_packed_tensors(packed[1:], scales[1:], dtype=torch.float32)
    for e, matrix in enumerate(experts(folder).matrices[1:]):
        assert np.array_equal(matrix.blocks().numbers(), original[e].T.numpy())


def test_damage_is_named(stored):
    folder, packed, _ = stored
    edit(folder, lambda tensors: tensors[f"{NAME}.up_proj_scales"][1, 0, 0].fill_(255))
    with pytest.raises(CheckpointError, match="up_proj_scales' holds a scale that is not a number"):
        experts(folder).at(1).blocks()
    experts(folder).at(0).blocks()
    edit(folder, lambda tensors: tensors.update({f"{NAME}.up_proj_blocks": packed[:, :5].contiguous()}))
    with pytest.raises(CheckpointError, match=r"up_proj_scales' is \(3, 6, 2\), expected \(3, 5, 2\)"):
        experts(folder)
    edit(folder, lambda tensors: tensors.pop(f"{NAME}.up_proj_scales"))
    with pytest.raises(CheckpointError, match="up_proj_scales' is missing"):
        experts(folder)


@pytest.fixture(scope="module")
def gpt_oss(tmp_path_factory):
    """A small gpt-oss as it is published: the folder, and its packed tensors' values."""
    folder = tmp_path_factory.mktemp("gpt_oss")
    return folder / "packed", quantised_experts(tiny_gpt_oss(folder / "float"), folder / "packed")


def test_gpt_oss_keeps_its_integers_and_is_proved(gpt_oss, tmp_path):
    folder, expected = gpt_oss
    checkpoint = Checkpoint(folder)
    packed = 0
    for parameter, weight in families.resolve(checkpoint).weights.items():
        blocks = weight.blocks(checkpoint)
        if weight.tensors[0] not in expected:
            assert blocks is None
            continue
        packed += 1
        _, _, layer, *_, number, which, _ = parameter.split(".")
        matrix = expected[f"model.layers.{layer}.mlp.experts.{'down' if which == 'down' else 'gate_up'}_proj"]
        part = {"down": slice(None), "gate": slice(None, None, 2), "up": slice(1, None, 2)}[which]
        [rows] = weight.rows(checkpoint)
        assert np.array_equal(rows, matrix[int(number)][part])
        assert np.array_equal(blocks.numbers(), rows)
    assert packed == 2 * 5 * 3
    txexport.export(folder, tmp_path / "out")
    assert (inspect(tmp_path / "out").bundle.stored or "").startswith("stored: 30 matrices keep the")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, report
    assert {"twin", "transformers"} <= set(report.references)


def test_transformers_reads_the_same_of_gpt_oss_by_itself(gpt_oss):
    folder, expected = gpt_oss
    settings = transformers.Mxfp4Config(dequantize=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, quantization_config=settings
    )
    state = model.state_dict()
    for name, numbers in expected.items():
        assert np.array_equal(state[name].mT.numpy(), numbers)
