"""Attention in windows, merging, grids of patches: twins over every switch, and the originals' layers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.block
import txgraphs.inputs.patch_grid
import txgraphs.patch_merging
import txgraphs.window_attention
import txmodels.block
import txmodels.inputs.patch_grid
import txmodels.patch_merging
import txmodels.window_attention
from helpers.twins import check, random, seeded
from transformers.models.swin import modeling_swin as swin
from transformers.models.swin.configuration_swin import SwinConfig

from txexport.parts.inputs import OF_SPEC
from txexport.spec import (
    Activation,
    BlockSpec,
    CosineSpec,
    FeedForwardSpec,
    MergingSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    WindowAttentionSpec,
    attention_parameters,
    parameters,
)

B, W, N, H = 3, 12, 2, 6
NORM = NormSpec(W, 1e-3)
PLAIN = WindowAttentionSpec(W, N, H, window=4, bias=False)
KINDS = {
    "plain": PLAIN,
    "shifted": replace(PLAIN, shift=2, bias=True),
    "odd windows": replace(PLAIN, window=3, shift=1),
    "always shifted": replace(PLAIN, shift=2, always_shifted=True, hidden=-3.0),
    "cosines": replace(PLAIN, bias=True, cosine=CosineSpec(16)),
    "trained in other windows, shifted": replace(PLAIN, shift=1, cosine=CosineSpec(16, 7, 9.0, 4.0)),
    "of one": replace(PLAIN, window=1, cosine=CosineSpec(16)),
}
GRIDS = [(4, 4), (8, 12), (4, 9), (7, 6), (11, 5), (2, 3)]
EVERY = pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)
SIZED = pytest.mark.parametrize("grid", GRIDS, ids="{0[0]} by {0[1]}".format)


def shapes_of(module: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}


def shift_of(spec: WindowAttentionSpec, x: torch.Tensor) -> list[torch.Tensor | None]:
    return list(txmodels.window_attention.window_shift(spec, x)) if spec.shift else [None] * 5


@SIZED
@EVERY
def test_window_attention(spec, grid):
    module = txmodels.window_attention.WindowAttention(spec)
    assert shapes_of(module) == attention_parameters.attention(spec)
    function = partial(txgraphs.window_attention.window_attention, spec)
    x = random(B, *grid, W)
    check(module, function, x, *shift_of(spec, x))


@SIZED
@pytest.mark.parametrize("spec", [KINDS[kind] for kind in KINDS if "shifted" in kind or "odd" in kind])
def test_shift(spec, grid):
    """The order of rows and columns, and the mask; a grid that is no larger than a window stays as it is."""
    x = random(B, *grid, W)
    results = check(
        partial(txmodels.window_attention.window_shift, spec), txgraphs.window_attention.window_shift(spec), x
    )
    mask, rows, columns, own_rows, own_columns = results
    shift = spec.shift if spec.always_shifted or min(grid) > spec.window else 0
    padded = [size + -size % spec.window for size in grid]
    for order, back, size, most in zip((rows, columns), (own_rows, own_columns), grid, padded, strict=True):
        assert order.tolist() == np.roll(np.arange(most), -shift).tolist()
        assert order[back].tolist() == list(range(size))
    assert set(mask.ravel().tolist()) <= {0, spec.hidden}
    assert (mask != 0).any() == (shift > 0)


@pytest.mark.parametrize("norm_last", [False, True], ids=["norm first", "norm last"])
@SIZED
def test_patch_merging(grid, norm_last):
    size = 20
    spec = MergingSpec(W, size, NormSpec(size if norm_last else 4 * W, 1e-3), norm_last)
    module = txmodels.patch_merging.PatchMerging(spec)
    assert shapes_of(module) == parameters.merging(spec)
    y = check(module, partial(txgraphs.patch_merging.patch_merging, spec), random(B, *grid, W))[0]
    assert y.shape == (B, (grid[0] + 1) // 2, (grid[1] + 1) // 2, size)


@pytest.mark.parametrize("positioned", [False, True], ids=["plain", "positions"])
@pytest.mark.parametrize("size", [(12, 20), (9, 23), (31, 4)], ids="{0[0]} by {0[1]}".format)
def test_patch_grid(size, positioned):
    spec = PatchGridSpec(W, (12, 20), 4, NORM, positioned=positioned)
    module = txmodels.inputs.patch_grid.PatchGridEmbedding(spec)
    assert shapes_of(module) == OF_SPEC[type(spec)].parameters(spec)
    function = partial(txgraphs.inputs.patch_grid.patch_grid_embedding, spec)
    x = check(module, function, random(B, spec.channels, *size))[0]
    assert x.shape == (B, -(-size[0] // 4), -(-size[1] // 4), W)


@pytest.mark.parametrize("placement", [NormPlacement.PRE, NormPlacement.RES_POST])
@pytest.mark.parametrize("kind", ["plain", "shifted", "cosines"])
def test_block(kind, placement):
    spec = BlockSpec(KINDS[kind], FeedForwardSpec(W, 30, Activation.GELU), NORM, placement)
    module = txmodels.block.EncoderBlock(spec)
    assert shapes_of(module) == parameters.block(spec)
    x = random(B, 7, 9, W)
    names = "mask", "rows", "columns", "own_rows", "own_columns"
    context = dict(zip(names, shift_of(KINDS[kind], x), strict=True))
    check(module, partial(txgraphs.block.encoder_block, spec, False), x, **context)


@pytest.mark.parametrize("grid", [grid for grid in GRIDS if min(grid) >= 4], ids="{0[0]} by {0[1]}".format)
@pytest.mark.parametrize("shift", [0, 2])
def test_layer_is_the_originals(shift, grid):
    """Swin's own layer with our weights, over grids of a window or more: its biases fit no smaller one."""
    config = SwinConfig(window_size=4, mlp_ratio=2.5, layer_norm_eps=1e-3)
    config._attn_implementation = "eager"
    original = swin.SwinLayer(config, W, grid, N, shift_size=shift).eval()
    attention = replace(PLAIN, shift=shift, bias=True)
    spec = BlockSpec(attention, FeedForwardSpec(W, 30, Activation.GELU), NORM, NormPlacement.PRE)
    module = seeded(txmodels.block.EncoderBlock(spec))
    renamed = {
        "attention.q": "attention.q_proj",
        "attention.k": "attention.k_proj",
        "attention.v": "attention.v_proj",
        "attention.o": "attention.o_proj",
        "attention.relative.weight": "attention.relative_position_bias.relative_position_bias_table",
        "attention_norm": "layernorm_before",
        "feed_forward.up": "mlp.fc1",
        "feed_forward.down": "mlp.fc2",
        "feed_forward_norm": "layernorm_after",
    }
    weights = {}
    for name, value in module.state_dict().items():
        owner, _, end = name.rpartition(".")
        weights[renamed[name] if name in renamed else f"{renamed[owner]}.{end}"] = value
    original.load_state_dict(weights)
    x = random(B, *grid, W)
    names = "mask", "rows", "columns", "own_rows", "own_columns"
    context = dict(zip(names, shift_of(attention, x), strict=True))
    with torch.inference_mode():
        (y,) = module(x, **context)
        expected, _ = original(x.flatten(1, 2), grid)
    assert (y.flatten(1, 2) - expected).abs().max() < 2e-5 * expected.abs().max()


def test_coordinates_are_the_originals():
    """Logarithms of distances, as Swin v2 has them in float32."""
    for window, trained in ((4, None), (8, None), (16, 8), (1, None), (24, 12)):
        spec = replace(PLAIN, window=window, cosine=CosineSpec(16, trained))
        steps = torch.arange(1 - window, window).float()
        scaled = 8 * steps / max((trained or window) - 1, 1)
        logarithms = torch.sign(scaled) * torch.log2(scaled.abs() + 1) / 3
        expected = torch.stack(torch.meshgrid(logarithms, logarithms, indexing="ij"), -1).flatten(0, 1)
        assert (torch.tensor(spec.coordinates()) - expected).abs().max() < 1e-6
