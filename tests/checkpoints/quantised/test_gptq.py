"""GPTQ checkpoints: every number bit for bit, both ways of storing zeros, orders of inputs, damage."""

import numpy as np
import pytest
import torch
from tiny_quantised import edit, gptq, quantised, settle, tiny_llama

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError

SETTINGS = {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": False}
Q = "model.layers.0.self_attn.q_proj"

VARIANTS = {
    "symmetric": ({}, {}),
    "version 2": ({"stored_less": 0}, {"checkpoint_format": "gptq_v2"}),
    "version 2 that says 1": ({"stored_less": 0}, {"checkpoint_format": "gptq"}),
    "asymmetric": ({"symmetric": False}, {"sym": False}),
    "asymmetric, version 2": (
        {"symmetric": False, "stored_less": 0},
        {"sym": False, "checkpoint_format": "gptq_v2"},
    ),
    "act-order": ({"act_order": True}, {"desc_act": True}),
    "act-order, asymmetric": ({"act_order": True, "symmetric": False}, {"desc_act": True, "sym": False}),
    "one group": ({"group": -1}, {"group_size": -1}),
    "last group short": ({"group": 40}, {"group_size": 40}),
    "last group short, act-order": ({"group": 40, "act_order": True}, {"group_size": 40}),
    "without g_idx": ({"g_idx": False}, {}),
    "without g_idx, last group short": ({"g_idx": False, "group": 40}, {"group_size": 40}),
    "2 bits": ({"bits": 2}, {"bits": 2}),
    "2 bits, asymmetric": ({"bits": 2, "symmetric": False}, {"bits": 2, "sym": False}),
    "3 bits": ({"bits": 3}, {"bits": 3}),
    "3 bits, asymmetric": ({"bits": 3, "symmetric": False}, {"bits": 3, "sym": False}),
    "8 bits": ({"bits": 8}, {"bits": 8}),
    "8 bits, asymmetric": ({"bits": 8, "symmetric": False}, {"bits": 8, "sym": False}),
}


@pytest.fixture
def gptq_of(made):
    """A function from a packer's options and settings to the folder and the dequantised values by name."""
    return lambda options=None, settings=None: made(gptq(**options or {}), SETTINGS | (settings or {}))


@pytest.mark.parametrize("variant", VARIANTS)
def test_numbers_are_the_formats_own(gptq_of, variant):
    folder, expected = gptq_of(*VARIANTS[variant])
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert checkpoint.tensors[name].shape == numbers.shape
        assert np.array_equal(checkpoint.read(name), numbers)
        blocks = checkpoint.blocks(name)
        assert np.array_equal(blocks.numbers(), numbers)
        assert blocks.integers.dtype == (np.int8 if blocks.zeros is None else np.uint8)
        assert not checkpoint.rounds(name)
    symmetric = VARIANTS[variant][1].get("sym", True)
    assert (blocks.zeros is None) == symmetric
    assert (blocks.order is None) != ("act" in variant)
    assert blocks.bits == VARIANTS[variant][0].get("bits", 4)
    assert blocks.block == min(VARIANTS[variant][0].get("group", 32) % 2**31, numbers.shape[1])
    low, high = (-(1 << blocks.bits - 1), 1 << blocks.bits - 1) if symmetric else (0, 1 << blocks.bits)
    assert low <= blocks.integers.min() < blocks.integers.max() < high


def test_an_order_of_zeros_is_none(gptq_of):
    """Older writers left it where inputs have no order (AutoGPTQ's kernels ignore it)."""
    folder, expected = gptq_of()
    edit(folder, lambda tensors: tensors[f"{Q}.g_idx"].zero_())
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected[f"{Q}.weight"])


def test_zero_of_16_stays_one(gptq_of):
    """Version 1 stores the zero point minus 1, so that 15 means 16, which 4 bits do not hold.

    Adding 1 to packed words would carry into the neighbouring value.
    """
    folder, expected = gptq_of({"symmetric": False, "zero": 16}, {"sym": False})
    blocks = Checkpoint(folder).blocks(f"{Q}.weight")
    assert np.array_equal(blocks.numbers(), expected[f"{Q}.weight"])
    assert (blocks.zeros == 16).all()
    assert blocks.bits == 8


def test_zero_of_256_is_refused(gptq_of):
    folder, _ = gptq_of({"symmetric": False, "zero": 256, "bits": 8}, {"sym": False, "bits": 8})
    with pytest.raises(UnsupportedError, match=rf"'{Q}.qzeros' has the zero 256"):
        Checkpoint(folder).blocks(f"{Q}.weight")


def test_modules_may_have_bits_and_groups_of_their_own(gptq_of):
    """`dynamic` holds regular expressions, which are not evaluated: shapes give the same result."""
    dynamic = {"dynamic": {r"+:(a+)+$": {"bits": 8, "group_size": 16}, "-:lm_head": {}}}
    folder, expected = gptq_of({}, dynamic)
    packed, numbers = gptq(bits=8, group=16)(np.random.default_rng(5), *expected[f"{Q}.weight"].shape)

    def change(tensors):
        tensors.update({f"{Q}.{leaf}": tensor for leaf, tensor in packed.items()})

    edit(folder, change)
    checkpoint = Checkpoint(folder)
    assert np.array_equal(checkpoint.read(f"{Q}.weight"), numbers)
    assert checkpoint.blocks(f"{Q}.weight").block == 16
    edit(folder, lambda tensors: tensors.pop(f"{Q}.g_idx"))
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), numbers)
    settle(folder, dynamic={})
    with pytest.raises(CheckpointError, match=r"are not packed in 4 bits, as config.json says"):
        Checkpoint(folder)


def test_head_may_be_packed(tmp_path):
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1, tie_word_embeddings=False)
    folder = tmp_path / "quantised"
    expected = quantised(source, folder, gptq(), SETTINGS | {"lm_head": True}, modules="lm_head")
    assert np.array_equal(Checkpoint(folder).read("lm_head.weight"), expected["lm_head.weight"])


UNREAD = {
    "checkpoint_format": "marlin",
    "format": "bitblas",
    "is_marlin_format": True,
    "bits": 5,
    "dynamic": {"+:lm_head": {"sym": False}},
    "pack_dtype": "int16",
    "rotation": "hadamard",
    "adapter": {"path": "x"},
}


@pytest.mark.parametrize("key", [*UNREAD, "gptq_p"])
def test_other_layouts_are_refused_by_name(gptq_of, key):
    settings = {"checkpoint_format": "gptq_p"} if key == "gptq_p" else {key: UNREAD[key]}
    folder, _ = gptq_of({}, settings)
    with pytest.raises(
        UnsupportedError, match=f"quantization_config.{next(iter(settings))}.* is not supported"
    ):
        Checkpoint(folder)


def set_to(leaf, index, value):
    def change(tensors):
        tensors[f"{Q}.{leaf}"][index] = value

    return change


def cut(leaf, *which):
    def change(tensors):
        tensors[f"{Q}.{leaf}"] = tensors[f"{Q}.{leaf}"][which].contiguous()

    return change


DAMAGE = {
    "no zeros": (lambda tensors: tensors.pop(f"{Q}.qzeros"), rf"'{Q}.qzeros' is missing"),
    "no scales": (lambda tensors: tensors.pop(f"{Q}.scales"), rf"'{Q}.scales' is missing"),
    "short scales": (cut("scales", slice(1)), rf"'{Q}.scales' is \(1, 64\), expected \(2, 64\)"),
    "short words": (cut("qweight", slice(7)), rf"'{Q}.g_idx' is \(64,\), expected \(56,\)"),
    "narrow zeros": (cut("qzeros", slice(None), slice(3)), r"not packed in 4 bits"),
    "words of another type": (
        lambda tensors: tensors.update({f"{Q}.qweight": tensors[f"{Q}.qweight"].long()}),
        rf"'{Q}.qweight' is I64, expected I32",
    ),
    "packed and not": (
        lambda tensors: tensors.update({f"{Q}.weight": torch.zeros(64, 64)}),
        rf"'{Q}.weight' occurs packed and unpacked",
    ),
    "scale is NaN": (set_to("scales", 0, np.nan), rf"'{Q}.scales' holds a scale that is not finite"),
    "scale is infinite": (set_to("scales", 1, np.inf), rf"'{Q}.scales' holds a scale that is not finite"),
    "group too high": (set_to("g_idx", 3, 2), rf"'{Q}.g_idx' names groups 0 to 2; expected 0 to 1"),
    "group below 0": (set_to("g_idx", 3, -1), rf"'{Q}.g_idx' names groups -1 to 1; expected 0 to 1"),
    "groups unequal": (set_to("g_idx", 3, 1), rf"'{Q}.g_idx' has groups of 31 to 33 inputs"),
    "zeros mixed": (set_to("qzeros", (0, 0), 0x77777778), rf"'{Q}.qzeros' has zeros from 7 to 8; .* sym"),
    "no group": (cut("scales", slice(0)), rf"'{Q}.scales' is \(0, 64\), which holds no numbers"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(gptq_of, damage):
    folder, _ = gptq_of()
    change, message = DAMAGE[damage]
    edit(folder, change)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(folder).read(f"{Q}.weight")


def swap_nibbles(tensors):
    words = tensors[f"{Q}.qweight"].view(torch.uint8)
    words.copy_(words << 4 | words >> 4)


def move_a_zero(tensors):
    tensors[f"{Q}.qzeros"][0, 0] ^= 1


def forget_the_order(tensors):
    tensors[f"{Q}.g_idx"].copy_(torch.arange(64) // 32)


@pytest.mark.parametrize("mutant", [swap_nibbles, move_a_zero, forget_the_order])
def test_every_part_counts(gptq_of, mutant):
    """A difference that a tolerance would accept, such as one zero point of 128 off by 1, is detected."""
    folder, expected = gptq_of({"act_order": True, "symmetric": False}, {"sym": False})
    before = Checkpoint(folder).read(f"{Q}.weight")
    edit(folder, mutant)
    assert np.array_equal(before, expected[f"{Q}.weight"])
    assert not np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), before)


def test_config_without_a_packed_tensor_is_refused(llama, tmp_path):
    folder = tmp_path / "quantised"
    quantised(llama, folder, lambda random, *shape: ({"weight": torch.zeros(shape)}, None), SETTINGS)
    with pytest.raises(CheckpointError, match="says that weights are quantised by gptq, but none is packed"):
        Checkpoint(folder)
