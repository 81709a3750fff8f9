"""MXFP4 tensors of experts: every number bit for bit, against transformers too."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from tiny_quantised import edit

from txexport.checkpoints.checkpoint import read_header
from txexport.checkpoints.quantised import mxfp4
from txexport.checkpoints.quantised.module import by_module
from txexport.errors import CheckpointError

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
    matrices = experts(folder)
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
    """It gives (experts,in,out); powers so small that they have no normal float32 are its own matter."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    folder, packed, scales = stored
    original = convert_moe_packed_tensors(packed[1:], scales[1:], dtype=torch.float32)
    for e, matrix in enumerate(experts(folder)[1:]):
        assert np.array_equal(matrix.blocks().numbers(), original[e].T.numpy())


def test_damage_is_named(stored):
    folder, packed, _ = stored
    edit(folder, lambda tensors: tensors[f"{NAME}.up_proj_scales"][1, 0, 0].fill_(255))
    with pytest.raises(CheckpointError, match="up_proj_scales' holds a scale that is not a number"):
        experts(folder)[1].blocks()
    experts(folder)[0].blocks()
    edit(folder, lambda tensors: tensors.update({f"{NAME}.up_proj_blocks": packed[:, :5].contiguous()}))
    with pytest.raises(CheckpointError, match=r"up_proj_scales' is \(3, 6, 2\), expected \(3, 5, 2\)"):
        experts(folder)
    edit(folder, lambda tensors: tensors.pop(f"{NAME}.up_proj_scales"))
    with pytest.raises(CheckpointError, match="up_proj_scales' is missing"):
        experts(folder)
