"""AWQ checkpoints: every number bit for bit, the order of outputs in a word, what is refused."""

import numpy as np
import pytest
import torch
from tiny_quantised import awq, edit, settle

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError

SETTINGS = {"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}
Q = "model.layers.0.self_attn.q_proj"


@pytest.mark.parametrize("group", [16, 32, -1])
def test_numbers_are_the_formats_own(made, group):
    folder, expected = made(awq(group), SETTINGS | {"group_size": group, "version": "GEMM"})
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)
        blocks = checkpoint.blocks(name)
        assert np.array_equal(blocks.numbers(), numbers)
        assert (blocks.bits, blocks.block, blocks.order) == (4, group % 65, None)
        assert blocks.integers.dtype == blocks.zeros.dtype == np.uint8
        assert blocks.zeros.min() == 0  # stored as they are: nothing is added


@pytest.mark.parametrize(
    "settings",
    [
        {"version": "gemv"},
        {"version": "gemv_fast"},
        {"version": "exllama"},
        {"version": "marlin"},
        {"format": "llm-awq"},
        {"backend": "llm-awq"},
        {"bits": 3},
        {"zero_point": False},
    ],
    ids=str,
)
def test_other_layouts_are_refused_by_name(made, settings):
    folder, _ = made(awq(), SETTINGS | settings)
    [key] = settings
    with pytest.raises(UnsupportedError, match=f"quantization_config.{key} .* is not supported"):
        Checkpoint(folder)


def test_scales_of_activations_are_refused(made):
    """Some families have them (transformers, AWQ_SCALES_MAPPINGS); without them it is another model."""
    folder, _ = made(awq(), SETTINGS)
    edit(folder, lambda tensors: tensors.update({"model.layers.0.mlp.act.scales": torch.ones(96)}))
    with pytest.raises(UnsupportedError, match=r"'model.layers.0.mlp.act.scales' scales an activation"):
        Checkpoint(folder)


def cut(leaf, *which):
    def change(tensors):
        tensors[f"{Q}.{leaf}"] = tensors[f"{Q}.{leaf}"][which].contiguous()

    return change


def infinite(tensors):
    tensors[f"{Q}.scales"][1, 3] = torch.inf


DAMAGE = {
    "no zeros": (lambda tensors: tensors.pop(f"{Q}.qzeros"), rf"'{Q}.qzeros' is missing"),
    "narrow zeros": (cut("qzeros", slice(None), slice(3)), rf"'{Q}.qzeros' is \(2, 3\), expected \(2, 8\)"),
    "narrow scales": (cut("scales", slice(None), slice(9)), rf"'{Q}.scales' is \(2, 9\), expected \(2, 64\)"),
    "short words": (cut("qweight", slice(63)), rf"'{Q}.scales' has 2 groups for 63 inputs"),
    "infinite": (infinite, rf"'{Q}.scales' holds a scale that is not finite"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(made, damage):
    folder, _ = made(awq(), SETTINGS)
    change, message = DAMAGE[damage]
    edit(folder, change)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(folder).read(f"{Q}.weight")


def swap_outputs(tensors):
    words = tensors[f"{Q}.qweight"].view(torch.uint8)
    words.copy_(words << 4 | words >> 4)


def move_a_zero(tensors):
    tensors[f"{Q}.qzeros"][1, 7] ^= 1 << 28


@pytest.mark.parametrize("mutant", [swap_outputs, move_a_zero])
def test_every_part_counts(made, mutant):
    folder, expected = made(awq(), SETTINGS)
    edit(folder, mutant)
    assert not np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected[f"{Q}.weight"])


def test_group_size_may_be_called_as_older_files_do(made):
    folder, expected = made(awq(16), SETTINGS)
    settle(folder, group_size=None, q_group_size=16, w_bit=4, bits=None)
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected[f"{Q}.weight"])
