"""The layer that pools queries, windowed positions, the neck of maps, and the decoder over them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.inputs.patch_grid
import txgraphs.map_neck
import txgraphs.mask_decoder
import txgraphs.query_pooling
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.inputs.patch_grid import PatchGridEmbedding
from txmodels.map_neck import MapNeck
from txmodels.mask_decoder import MaskDecoder, of_image, stable_first
from txmodels.query_pooling import PooledAttention, QueryPooling, largest

from txexport.errors import SpecError
from txexport.parts.architectures._mask_decoder import operations
from txexport.parts.inputs import input_of
from txexport.spec import (
    Activation,
    FeedForwardSpec,
    MapNeckSpec,
    MaskDecoderSpec,
    NormSpec,
    PatchGridSpec,
    QueryPoolingSpec,
    StabilitySpec,
    TwoWaySpec,
    WindowedPositionsSpec,
)
from txexport.spec.parameters import merging

B, W = 2, 16
POOLING = QueryPoolingSpec(4, 6, 4, NormSpec(W, 1e-6), FeedForwardSpec(24, 30, Activation.GELU))
PATCHES = PatchGridSpec(
    W, (48, 32), 4, None, positioned=True, kernel=7, fixed=True, windowed=WindowedPositionsSpec(3, 5, 4)
)
MAP_NECK = MapNeckSpec((6, 10, 12, 14), W, (2,))
LAYERS = TwoWaySpec(W, 2, 2, 20, Activation.RELU, NormSpec(W, 1e-5), NormSpec(W, 1e-5))
DECODER = MaskDecoderSpec(LAYERS, 4, NormSpec(W // 4, 1e-6), 3, 12, True, StabilitySpec(0.05, 0.98))


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


@pytest.mark.parametrize("stride", [1, 2, 4])
@pytest.mark.parametrize("grid", [(4, 4), (8, 12), (12, 20)])
def test_query_pooling(grid, stride):
    """Of one window, of several, and of grids that are padded to whole ones."""
    spec = replace(POOLING, stride=stride, window=8 if grid == (12, 20) else 4)
    module = QueryPooling(spec)
    assert shapes(module) == merging(spec)
    [y] = check(module, partial(txgraphs.query_pooling.query_pooling, spec), random(B, *grid, W))
    assert y.shape == (B, grid[0] // stride, grid[1] // stride, 24)


@pytest.mark.parametrize("grid", [(4, 8), (6, 10)])
def test_pooled_attention(grid):
    function = partial(txgraphs.query_pooling.pooled_attention, POOLING)
    check(PooledAttention(POOLING), function, random(B, *grid, W))


@pytest.mark.parametrize("grid", [(2, 2), (6, 10)])
def test_pooled_attention_everywhere(grid):
    """Of a grid of any size; operations are those of the grid that the spec names."""
    spec = replace(POOLING, window=6, everywhere=True)
    module = QueryPooling(spec).requires_grad_(False)
    check(module, partial(txgraphs.query_pooling.query_pooling, spec), random(B, *grid, W))
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(random(1, 6, 6, W))
    matrices = sum(value.numel() for value in module.parameters() if value.ndim == 2)
    assert 9 * (2 * matrices + spec.operations) == counter.get_total_flops()


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_largest(stride):
    check(partial(largest, stride), txgraphs.query_pooling.largest(stride), random(B, 6, 12, W))


def test_operations_of_pooling_are_those_that_pytorch_counts():
    """For a grid of whole windows: the matrices once for each new vector, and what is beside."""
    module, (rows, columns) = QueryPooling(POOLING).requires_grad_(False), (8, 12)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(random(1, rows, columns, W))
    matrices = sum(value.numel() for value in module.parameters() if value.ndim == 2)
    new = rows * columns // 4
    assert new * (2 * matrices + POOLING.operations) == counter.get_total_flops()


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_with_windowed_positions(channels):
    spec = replace(PATCHES, channels=channels)
    module = PatchGridEmbedding(spec)
    assert shapes(module) == input_of_patches(spec)
    [x] = check(
        module, partial(txgraphs.inputs.patch_grid.patch_grid_embedding, spec), random(B, channels, 48, 32)
    )
    assert x.shape == (B, 12, 8, W)


def input_of_patches(spec):
    return input_of_embedding(spec).parameters(spec)


def input_of_embedding(spec):
    class Stack:
        embedding = spec

    return input_of(Stack())


@pytest.mark.parametrize("top_down", [(2,), (0, 1, 2)])
def test_map_neck(top_down):
    spec = replace(MAP_NECK, top_down=top_down)
    maps = [random(B, 16 // 2**stage, 8 // 2**stage, width) for stage, width in enumerate(spec.sizes)]

    def function(g, *x):
        return txgraphs.map_neck.map_neck(spec, g, **{str(n): one for n, one in enumerate(x)})

    finest, finer, third = check(MapNeck(spec), function, *maps)
    assert (finest.shape, finer.shape, third.shape) == ((B, 2, 16, 8), (B, 4, 8, 4), (B, W, 4, 2))


@pytest.mark.parametrize("stability", [None, DECODER.stability])
@pytest.mark.parametrize(("groups", "points"), [(1, 1), (3, 4)])
def test_mask_decoder_with_finer_maps(groups, points, stability):
    spec = replace(DECODER, stability=stability)
    maps = {"finer": random(B, W // 4, 6, 10), "finest": random(B, W // 8, 12, 20)}
    values = random(B, W, 3, 5), random(B, W, 3, 5), random(B, groups, points, W)
    function = partial(txgraphs.mask_decoder.mask_decoder, spec)
    masks, scores, objects = check(MaskDecoder(spec), function, *values, **maps)
    assert masks.shape == (B, groups, 4, 12, 20)
    assert (scores.shape, objects.shape) == ((B, groups, 4), (B, groups, 1))
    assert ((scores > 0) & (scores < 1)).all()


def test_of_image():
    check(of_image, txgraphs.mask_decoder.of_image, random(3 * B, W, 3, 5), random(B, W, 3, 5))


def test_the_first_mask_is_stable_or_the_likeliest_other():
    """A stable one, an unstable one, one of nothing, and one within the shift alone."""
    spec = StabilitySpec(0.5, 0.9)
    masks = random(1, 4, 4, 5, 7) * 0.1
    masks[0, 0, 0], masks[0, 2, 0], masks[0, 3, 0] = 3.0, -3.0, 0.2
    masks[0, 1, 0, :3], masks[0, 1, 0, 3:] = 3.0, 0.1
    scores = torch.tensor([[[0.1, 0.2, 0.9, 0.3]] * 3 + [[0.99, 0.7, 0.2, 0.3]]])
    chosen, best = check(partial(stable_first, spec), txgraphs.mask_decoder.stable_first(spec), masks, scores)
    expected = [0, 2, 0, 1]  # of each prompt, the mask that comes first
    for prompt, number in enumerate(expected):
        assert np.array_equal(chosen[0, prompt, 0], masks[0, prompt, number].numpy())
        assert best[0, prompt, 0] == scores[0, prompt, number]
    assert np.array_equal(chosen[:, :, 1:], masks[:, :, 1:].numpy())


def test_operations_are_those_that_pytorch_counts():
    """Of one group of two points, or of the corners of a box and one that is none."""
    module = seeded(MaskDecoder(DECODER)).requires_grad_(False)
    values = random(1, W, 3, 5), random(1, W, 3, 5), random(1, 1, 2, W)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(*values, finer=random(1, W // 4, 6, 10), finest=random(1, W // 8, 12, 20))
    assert operations(DECODER, 15) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(POOLING, num_heads=3), "3 heads of 6, expected 24 in all"),
        (lambda: replace(POOLING, stride=3), "windows of 4 by 4, a stride of 3"),
        (lambda: replace(PATCHES, fixed=False), "windowed positions of images of any size"),
        (lambda: replace(PATCHES, image_size=(48, 36)), "windowed positions of 4; expected multiples"),
        (lambda: replace(MAP_NECK, sizes=(6, 10)), "expected 3 or more widths"),
        (lambda: replace(MAP_NECK, size=12), "size is 12, expected a multiple of 8"),
        (lambda: replace(MAP_NECK, top_down=(1,)), "expected those from 2 to 2"),
        (lambda: replace(MAP_NECK, top_down=(2, 3)), "expected those from 2 to 2"),
        (lambda: replace(DECODER, object_score=False), "stability needs object_score"),
        (lambda: StabilitySpec(0.0, 1.0), "delta is 0.0, expected more than 0"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
