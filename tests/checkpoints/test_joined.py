"""A parameter that a checkpoint stores as several tensors, one after another."""

import numpy as np
import pytest
import tiny_checkpoint
import torch
from safetensors.torch import load_file, save_file
from txmodels.training import checkpoints

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError

FIRST = "model.layers.0.linear_attn"
PARTS = [f"{FIRST}.{name}_conv1d.weight" for name in "qkv"]
OURS = "decoder.layers.0.attention.convolution.weight"


@pytest.fixture
def folder(tmp_path):
    tiny_checkpoint.save(tmp_path, "olmo_hybrid")
    return tmp_path


def changed(folder, change: dict) -> None:
    file = folder / "model.safetensors"
    tensors = {name: one for name, one in (load_file(file) | change).items() if one is not None}
    save_file(tensors, file, {"format": "pt"})


def weight_of(folder) -> np.ndarray:
    checkpoint = Checkpoint(folder)
    return np.concatenate([*families.resolve(checkpoint).weights[OURS].rows(checkpoint)])


def in_parts(folder, *sizes: int) -> torch.Tensor:
    """Split the weight in its checkpoint in parts of these numbers of rows; return it."""
    stored = load_file(folder / "model.safetensors")
    weight = torch.cat([stored[name] for name in PARTS])
    changed(folder, {n: one.contiguous() for n, one in zip(PARTS, weight.split(sizes), strict=True)})
    return weight


@pytest.mark.parametrize("sizes", [(20, 20, 56), (32, 32, 32), (1, 94, 1)], ids=str)
def test_rows_may_be_split_anywhere(sizes, folder):
    """The published file has those of queries, keys and values apart; transformers saves equal parts."""
    np.testing.assert_array_equal(weight_of(folder), in_parts(folder, *sizes).numpy())


def test_a_trained_weight_is_stored_in_the_parts_of_its_checkpoint(folder, tmp_path):
    weight = in_parts(folder, 20, 20, 56)
    model = checkpoints.load(folder)
    with torch.no_grad():
        dict(model.named_parameters())[OURS].add_(1)
    checkpoints.save(model, tmp_path / "out", like=folder)
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(torch.cat([saved[name] for name in PARTS]), weight + 1)
    assert [len(saved[name]) for name in PARTS] == [20, 20, 56]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({PARTS[2]: None}, "missing: layers.0.linear_attn.v_conv1d.weight"),
        ({PARTS[1]: torch.ones(32, 1, 4)}, r"k_conv1d.weight' is \(32, 1, 4\), expected \(32, 1, 3\)"),
        ({PARTS[1]: torch.tensor(1.0)}, r"k_conv1d.weight' is \(\), expected \(0, 1, 3\)"),
        ({PARTS[1]: torch.ones(40, 1, 3)}, r"q_conv1d.weight' is \(32, 1, 3\), expected \(24, 1, 3\)"),
        ({PARTS[2]: torch.full((32, 1, 3), torch.nan)}, "v_conv1d.weight', which fills .* holds NaN"),
    ],
)
def test_damage_is_named(change, message, folder):
    changed(folder, change)
    with pytest.raises(CheckpointError, match=message):
        weight_of(folder)
