"""Attention over grids with distances, prompts, and the decoder of masks: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.grid_attention
import txgraphs.mask_decoder
import txgraphs.mask_prompt
import txgraphs.neck
import txgraphs.prompts
import txgraphs.separate_attention
import txgraphs.two_way
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.grid_attention import GridAttention
from txmodels.mask_decoder import MaskDecoder
from txmodels.mask_prompt import MaskPrompt
from txmodels.neck import Neck
from txmodels.prompts import Frequencies, Prompts
from txmodels.separate_attention import SeparateAttention
from txmodels.two_way import TwoWay, TwoWayLayer

from txexport.contracts.names import ABSENT, NO_POINT
from txexport.errors import SpecError
from txexport.parts.architectures._mask_decoder import mask_prompt, operations
from txexport.spec import GridAttentionSpec, MaskDecoderSpec, MaskPromptSpec, NeckSpec, NormSpec, TwoWaySpec
from txexport.spec.attention_parameters import attention
from txexport.spec.enums import Activation

B, W = 2, 16
NORM = NormSpec(W, 1e-6)
LAYERS = TwoWaySpec(W, 2, 2, 20, Activation.RELU, NORM, NormSpec(W, 1e-5))
DECODER = MaskDecoderSpec(LAYERS, 4, NormSpec(W // 4, 1e-6), 3, 12)


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(
    ("rows", "columns", "windowed", "grid"),
    [(3, 5, False, (3, 5)), (4, 4, True, (4, 4)), (4, 4, True, (10, 7)), (3, 3, True, (2, 5))],
)
def test_grid_attention(rows, columns, windowed, grid, bias, relative):
    spec = GridAttentionSpec(W, 2, 8, rows, columns, windowed, relative, bias)
    module = GridAttention(spec)
    assert shapes(module) == attention(spec)
    check(module, partial(txgraphs.grid_attention.grid_attention, spec), random(B, *grid, W))


def test_products_have_the_terms_of_distances():
    """As the original adds them to the scores."""
    spec = GridAttentionSpec(W, 2, 8, 3, 5, False)
    module = seeded(GridAttention(spec)).requires_grad_(False)
    x = random(B, 3, 5, W)
    q, k, v = (part(x).reshape(B, 15, 2, 8).transpose(1, 2) for part in (module.q, module.k, module.v))
    down = module.row_position.weight[torch.arange(3)[:, None] - torch.arange(3) + 2]
    across = module.column_position.weight[torch.arange(5)[:, None] - torch.arange(5) + 4]
    grid = q.reshape(B, 2, 3, 5, 8)
    by_row = torch.einsum("bnrch,rkh->bnrck", grid, down)[..., None]
    by_column = torch.einsum("bnrch,ckh->bnrck", grid, across)[..., None, :]
    scores = q @ k.mT * 8**-0.5 + (by_row + by_column).reshape(B, 2, 15, 15)
    expected = module.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, 3, 5, W))
    assert (module(x) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("grid", [(1, 1), (3, 5)])
def test_neck(grid):
    spec = NeckSpec(W, NormSpec(10, 1e-6))
    [features] = check(Neck(spec), partial(txgraphs.neck.neck, spec), random(B, *grid, W))
    assert features.shape == (B, 10, *grid)


@pytest.mark.parametrize("shape", [(3, 4), (B, 3, 2)])
def test_frequencies(shape):
    coordinates = torch.rand(*shape, 2, generator=torch.Generator().manual_seed(1)) * 1.4 - 0.2
    check(Frequencies(5), txgraphs.prompts.frequencies, coordinates)


def test_prompts():
    """Of every label, and of one that means nothing."""
    labels = torch.tensor([[[0, 1, 2, 3], [NO_POINT, ABSENT, 1, 7]]]).expand(B, -1, -1)
    points = random(B, 2, 4, W)
    [y] = check(Prompts(W), txgraphs.prompts.prompts, points, labels)
    assert (y[:, 1, 1] == 0).all()
    assert np.array_equal(y[:, 1, 3], points[:, 1, 3].numpy())
    assert not np.array_equal(y[:, 1, 2], points[:, 1, 2].numpy())


@pytest.mark.parametrize("inner", [W, W // 2])
def test_separate_attention(inner):
    """With a mask of keys, and without one."""
    module = SeparateAttention(W, 2, inner)
    function = partial(txgraphs.separate_attention.separate_attention, 2, inner)
    values = random(B, 3, W), random(B, 7, W), random(B, 7, W)
    check(module, function, *values)
    mask = torch.arange(7) < torch.tensor([7, 4])[:, None]
    check(module, function, *values, mask[:, None, None].expand(-1, 1, 3, -1))


@pytest.mark.parametrize("first", [True, False])
def test_two_way_layer(first):
    values = random(B, 3, W), random(B, 7, W), random(B, 3, W), random(B, 7, W)
    check(TwoWayLayer(LAYERS, first), partial(txgraphs.two_way.two_way_layer, LAYERS, first), *values)


@pytest.mark.parametrize("layers", [1, 3])
def test_two_way(layers):
    spec = replace(LAYERS, num_layers=layers)
    values = random(B, 3, W), random(B, 7, W), random(B, 7, W)
    check(TwoWay(spec), partial(txgraphs.two_way.two_way, spec), *values)


@pytest.mark.parametrize("score_layers", [2, 4])
@pytest.mark.parametrize(("groups", "points"), [(1, 1), (3, 4)])
def test_mask_decoder(groups, points, score_layers):
    spec = replace(DECODER, score_layers=score_layers)
    values = random(B, W, 3, 5), random(B, W, 3, 5), random(B, groups, points, W)
    masks, scores = check(MaskDecoder(spec), partial(txgraphs.mask_decoder.mask_decoder, spec), *values)
    assert masks.shape == (B, groups, 4, 12, 20)
    assert scores.shape == (B, groups, 4)


@pytest.mark.parametrize(("count", "groups"), [(1, 1), (1, 3), (3, 3)])
def test_mask_decoder_with_masks(count, groups):
    """One for all groups, or one for each, of which some are none."""
    maps = {"dense": random(B, count, W, 3, 5), "has_masks": torch.arange(B * count).reshape(B, count) % 2}
    values = random(B, W, 3, 5), random(B, W, 3, 5), random(B, groups, 2, W)
    module = MaskDecoder(DECODER)
    masks, _ = check(module, partial(txgraphs.mask_decoder.mask_decoder, DECODER), *values, **maps)
    plain, _ = module(*values)
    read = maps["has_masks"].expand(B, groups).bool()
    same = torch.isclose(torch.from_numpy(masks), plain, atol=1e-5).flatten(2).all(dim=2)
    assert torch.equal(same, ~read)


@pytest.mark.parametrize("act", [Activation.GELU, Activation.RELU])
@pytest.mark.parametrize("channels", [4, 16])
def test_mask_prompt(channels, act):
    spec = MaskPromptSpec(channels, act, 1e-6)
    module = MaskPrompt(spec, W)
    assert shapes(module) == mask_prompt(spec, W)
    [dense] = check(module, partial(txgraphs.mask_prompt.mask_prompt, spec), random(B, 3, 12, 20))
    assert dense.shape == (B, 3, W, 3, 5)


def test_operations_are_those_that_pytorch_counts():
    """Of one group of two points."""
    module = MaskDecoder(DECODER).requires_grad_(False)
    values = random(1, W, 3, 5), random(1, W, 3, 5), random(1, 1, 2, W)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(*values)
    assert operations(DECODER, 15) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GridAttentionSpec(W, 3, 8, 4, 4, True), "3 heads of 8"),
        (lambda: GridAttentionSpec(W, 2, 8, 4, 5, True), "windows of 4 by 5, expected squares"),
        (lambda: replace(LAYERS, norm=NormSpec(3, 1e-6)), "norm is 3 wide"),
        (lambda: replace(LAYERS, reduction=3), "expected a multiple"),
        (lambda: replace(DECODER, masks=1), "masks is 1"),
        (lambda: replace(DECODER, score_layers=1), "score_layers is 1"),
        (lambda: MaskPromptSpec(6, Activation.GELU, 1e-6), "channels is 6, expected a multiple of 4"),
        (lambda: replace(DECODER, norm=NormSpec(5, 1e-6)), "norm is 5 wide"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
