"""FP8 checkpoints: every number bit for bit, one scale or many, what is refused."""

import numpy as np
import pytest
import torch
from tiny_quantised import e4m3, edit, float8, quantised

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.quantised.float8 import E4M3, E5M2, E8M0
from txexport.errors import CheckpointError, UnsupportedError

SETTINGS = {
    "quant_method": "fp8",
    "activation_scheme": "dynamic",
    "fmt": "e4m3",
    "weight_block_size": [32, 16],
}
Q = "model.layers.0.self_attn.q_proj"


def test_every_code_is_pytorchs():
    codes = torch.arange(256, dtype=torch.uint8)
    for levels, kind in (
        (E4M3, torch.float8_e4m3fn),
        (E5M2, torch.float8_e5m2),
        (E8M0, torch.float8_e8m0fnu),
    ):
        assert np.array_equal(levels, codes.view(kind).float().numpy(), equal_nan=True)
    assert all(E4M3[code] == e4m3(code) for code in range(256) if code & 127 != 127)


@pytest.mark.parametrize("size", [(32, 16), (128, 128), (40, 48), None], ids=str)
def test_numbers_are_the_formats_own(made, size):
    """In blocks, which may be cut at the edges, or with one scale."""
    folder, expected = made(float8(*size or ()), SETTINGS | {"weight_block_size": size})
    checkpoint = Checkpoint(folder)
    for name, numbers in expected.items():
        assert np.array_equal(checkpoint.read(name), numbers)
        assert checkpoint.blocks(name) is None
        assert not checkpoint.rounds(name)


def test_heads_are_cut_across_rectangles(checkpoint_of, tmp_path):
    """DeepSeek's matrix of 3 heads, each with 10 rows for its keys and 14 for its values."""
    settings = SETTINGS | {"weight_block_size": [16, 16]}
    folder, modules = tmp_path / "quantised", "kv_b_proj|experts.1.up_proj"
    expected = quantised(checkpoint_of("deepseek_v3"), folder, float8(16, 16), settings, modules)
    checkpoint = Checkpoint(folder)
    weights = families.resolve(checkpoint).weights
    layer = "decoder.layers.1"
    keys, values, up = (
        np.concatenate(list(weights[f"{layer}.{name}.weight"].rows(checkpoint)))
        for name in ("attention.k_up", "attention.v_up", "feed_forward.experts.1.up")
    )
    heads = expected["model.layers.1.self_attn.kv_b_proj.weight"].reshape(3, 24, 18)
    assert np.array_equal(keys, heads[:, :10].reshape(30, 18))
    assert np.array_equal(values, heads[:, 10:].reshape(42, 18))
    assert np.array_equal(up, expected["model.layers.1.mlp.experts.1.up_proj.weight"])


def test_scales_may_be_powers_of_two(made):
    folder, _ = made(float8(32, 16), SETTINGS | {"scale_fmt": "ue8m0"})
    codes = torch.tensor([[120, 121, 122, 127], [126, 125, 124, 123]], dtype=torch.uint8)
    edit(folder, lambda tensors: tensors.update({f"{Q}.weight_scale_inv": codes.view(torch.float8_e8m0fnu)}))
    weights = {}
    edit(folder, weights.update)
    scales = np.repeat(np.repeat(2.0 ** (codes.numpy().astype(np.float32) - 127), 32, 0), 16, 1)
    expected = weights[f"{Q}.weight"].float().numpy() * scales
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), expected)
    codes[0, 0] = 255
    edit(folder, lambda tensors: tensors.update({f"{Q}.weight_scale_inv": codes.view(torch.float8_e8m0fnu)}))
    with pytest.raises(CheckpointError, match="weight_scale_inv' holds a scale that is not finite"):
        Checkpoint(folder).read(f"{Q}.weight")


@pytest.mark.parametrize("settings", [{"activation_scheme": "static"}, {"fmt": "e3m4"}], ids=str)
def test_other_ways_are_refused_by_name(made, settings):
    folder, _ = made(float8(32, 16), SETTINGS | settings)
    [key] = settings
    with pytest.raises(UnsupportedError, match=f"quantization_config.{key} .* is not supported"):
        Checkpoint(folder)


def nan(tensors):
    tensors[f"{Q}.weight_scale_inv"][1, 1] = torch.nan


DAMAGE = {
    "no scale": (lambda tensors: tensors.pop(f"{Q}.weight_scale_inv"), "'.*weight_scale_inv' is missing"),
    "no weight": (lambda tensors: tensors.pop(f"{Q}.weight"), rf"'{Q}.weight' is missing"),
    "not float8": (
        lambda tensors: tensors.update({f"{Q}.weight": torch.zeros(64, 64)}),
        rf"'{Q}.weight' is F32, expected F8_E4M3 or F8_E5M2",
    ),
    "other rectangles": (
        lambda tensors: tensors.update({f"{Q}.weight_scale_inv": torch.zeros(3, 4)}),
        rf"'{Q}.weight_scale_inv' is \(3, 4\), expected .* or \(2, 4\)",
    ),
    "not a number": (nan, rf"'{Q}.weight_scale_inv' holds a scale that is not finite"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_named(made, damage):
    folder, _ = made(float8(32, 16), SETTINGS)
    change, message = DAMAGE[damage]
    edit(folder, change)
    with pytest.raises(CheckpointError, match=message):
        Checkpoint(folder).read(f"{Q}.weight")


def test_transformers_makes_the_same_of_them(made):
    """For block sizes that divide the matrix, as the library requires."""
    from transformers.integrations.finegrained_fp8 import Fp8Dequantize

    folder, _ = made(float8(32, 16), SETTINGS)
    stored = {}
    edit(folder, stored.update)
    parts = stored[f"{Q}.weight"], stored[f"{Q}.weight_scale_inv"]
    original = Fp8Dequantize(None)._dequantize_one(*parts, output_dtype=torch.float32)
    assert np.array_equal(Checkpoint(folder).read(f"{Q}.weight"), original.numpy())
