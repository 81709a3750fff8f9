"""bitsandbytes checkpoints: every number bit for bit, in 8 bits and 4, and damage."""

import json

import numpy as np
import pytest
import torch
from tiny_quantised import edit, four_bits, llm_int8, quantised, settle, tiny_llama

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError

EIGHT = {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_threshold": 6.0}
FOUR = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_storage": "uint8"}
Q = "model.layers.0.self_attn.q_proj"
STATE = f"{Q}.weight.quant_state.bitsandbytes__nf4"


@pytest.mark.parametrize("settings", [EIGHT, {"load_in_8bit": True}], ids=["named", "before it had a name"])
def test_int8(made, settings):
    folder, expected = made(llm_int8, settings)
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)
        blocks = checkpoint.blocks(name)
        assert np.array_equal(blocks.numbers(), numbers)
        assert (blocks.bits, blocks.block, blocks.zeros) == (8, numbers.shape[1], None)
        assert checkpoint.rounds(name)


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True], ids=["scales", "scales of scales"])
def test_four_bits(made, kind, nested):
    folder, expected = made(four_bits(kind, nested=nested), FOUR)
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert checkpoint.tensors[name].shape == numbers.shape
        assert np.array_equal(checkpoint.read(name), numbers)
        assert checkpoint.blocks(name) is None
        assert not checkpoint.rounds(name)


@pytest.mark.parametrize("nested", [False, True])
def test_blocks_go_on_in_the_next_row(tmp_path, nested):
    """Of 37 inputs; and the last block is short."""
    source = tiny_llama(tmp_path / "float", num_hidden_layers=1, intermediate_size=37)
    folder = tmp_path / "quantised"
    expected = quantised(source, folder, four_bits(nested=nested), FOUR, modules="up_proj|down_proj")
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)


def test_codes_in_words_of_another_type_are_refused(made):
    folder, _ = made(four_bits(), FOUR)
    settle(folder, bnb_4bit_quant_storage="bfloat16")
    with pytest.raises(UnsupportedError, match=r"bnb_4bit_quant_storage 'bfloat16' is not supported"):
        Checkpoint(folder)


def test_another_layout_of_int8_is_refused(made):
    folder, _ = made(llm_int8, EIGHT)
    edit(folder, lambda tensors: tensors[f"{Q}.weight_format"].fill_(2))
    with pytest.raises(UnsupportedError, match=rf"'{Q}.weight_format' has another layout than row-major"):
        Checkpoint(folder)


def state(**changes):
    """A change of a matrix's quantisation state."""

    def change(tensors):
        values = json.loads(bytes(tensors[STATE].tolist())) | changes
        tensors[STATE] = torch.tensor(list(json.dumps(values).encode()), dtype=torch.uint8)

    return change


def put(leaf, value):
    return lambda tensors: tensors.update({f"{Q}.{leaf}": value})


DAMAGE = {
    "no scales": (lambda tensors: tensors.pop(f"{Q}.weight.absmax"), rf"'{Q}.weight.absmax' is missing"),
    "no levels": (lambda tensors: tensors.pop(f"{Q}.weight.quant_map"), "quant_map' is missing"),
    "no state": (lambda tensors: tensors.pop(STATE), rf"'{STATE}' is missing"),
    "no codes": (lambda tensors: tensors.pop(f"{Q}.weight"), rf"'{Q}.weight' is missing"),
    "no scales of scales": (lambda t: t.pop(f"{Q}.weight.nested_absmax"), "nested_absmax' is missing"),
    "state is no JSON": (lambda tensors: tensors[STATE].fill_(91), rf"'{STATE}' cannot be read as JSON"),
    "state is a list": (
        put(STATE.removeprefix(f"{Q}."), torch.tensor([91, 93], dtype=torch.uint8)),
        "a list",
    ),
    "another shape": (state(shape=[64, 63]), r"is \(2048, 1\), which is not \(64, 63\) in 4 bits"),
    "a shape below 0": (state(shape=[-64, -64]), r"shape is \[-64, -64\], expected two sizes"),
    "three sizes": (state(shape=[4, 16, 64]), "expected two sizes"),
    "no shape": (state(shape=None), "shape is missing"),
    "another block": (state(blocksize=128), r"absmax' is \(64,\), expected \(32,\)"),
    "block 0": (state(blocksize=0), "which is not"),
    "nested block 0": (state(nested_blocksize=0), "nested_blocksize is 0, expected more than 0"),
    "no offset": (state(nested_offset=None), "nested_offset is missing"),
    "offset is NaN": (state(nested_offset=float("nan")), "nested_offset is nan, expected a number"),
    "offset is text": (state(nested_offset="x"), "nested_offset is 'x', expected number"),
    "a level is NaN": (lambda tensors: tensors[f"{Q}.weight.quant_map"].fill_(torch.nan), "not finite"),
    "a scale is infinite": (lambda t: t[f"{Q}.weight.nested_absmax"].fill_(torch.inf), "not finite"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(made, damage):
    folder, _ = made(four_bits(nested=True), FOUR)
    change, message = DAMAGE[damage]
    edit(folder, change)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(folder).read(f"{Q}.weight")


@pytest.mark.parametrize("leaf", ["weight", "SCB"])
def test_int8_without_a_part_is_named(made, leaf):
    folder, _ = made(llm_int8, EIGHT)
    edit(folder, lambda tensors: tensors.pop(f"{Q}.{leaf}"))
    with pytest.raises(CheckpointError, match=rf"'{Q}.{leaf}' is missing"):
        Checkpoint(folder)


def swap_nibbles(tensors):
    tensors[f"{Q}.weight"] = tensors[f"{Q}.weight"] << 4 | tensors[f"{Q}.weight"] >> 4


def move_an_outer_scale(tensors):
    tensors[f"{Q}.weight.absmax"][3] ^= 1


@pytest.mark.parametrize("mutant", [swap_nibbles, move_an_outer_scale, state(nested_offset=0.1500001)])
def test_every_part_counts(made, mutant):
    folder, expected = made(four_bits(nested=True), FOUR)
    edit(folder, mutant)
    assert not np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected[f"{Q}.weight"])


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True])
def test_its_own_library_writes_the_same(made, kind, nested):
    """Tensors packed by the library are read as it unpacks them."""
    functional = pytest.importorskip("bitsandbytes").functional
    torch.manual_seed(0)
    weight = torch.randn(64, 64)
    packed, described = functional.quantize_4bit(weight, quant_type=kind, compress_statistics=nested)
    folder, _ = made(four_bits(kind, nested=nested), FOUR)
    parts = {f"{Q}.weight.{leaf}": part for leaf, part in described.as_dict(packed=True).items()}
    edit(folder, lambda tensors: tensors.update(parts | {f"{Q}.weight": packed}))
    unpacked = functional.dequantize_4bit(packed, described)
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), unpacked.numpy())


def test_its_own_library_writes_the_same_int8(made):
    """Its product with 1 / 127 rounds once more."""
    functional = pytest.importorskip("bitsandbytes").functional
    torch.manual_seed(0)
    weight, largest, _ = functional.int8_vectorwise_quant(torch.randn(64, 64).half())
    folder, _ = made(llm_int8, EIGHT)
    edit(folder, lambda tensors: tensors.update({f"{Q}.weight": weight, f"{Q}.SCB": largest}))
    unpacked = functional.int8_vectorwise_dequant(weight, largest).numpy()
    np.testing.assert_array_max_ulp(Checkpoint(folder).read(f"{Q}.weight"), unpacked, 2)
