"""Packed patches and positions on several axes: both halves on the same numbers, as in the library."""

from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir
import pytest
import torch
import txgraphs.packed
import txgraphs.position
import txmodels.packed
import txmodels.position
from helpers.twins import check, integers, random, seeded
from transformers import vision_utils
from txmodels.encoder_stack import SignalEncoder

from txexport.errors import SpecError
from txexport.parts.inputs import OF_SPEC
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    PackedSpec,
    RotarySpec,
    SignalStackSpec,
)

W = 8
GRIDS = [[(1, 2, 2)], [(1, 6, 10), (1, 4, 2), (1, 2, 14)], [(3, 4, 6), (1, 2, 2)], [(1, 12, 2)] * 3]
ROTARY = RotarySpec((1.0, 0.1) * 2, axes=(0, 0, 1, 1))
ATTENTION = AttentionSpec(W, 1, 1, W, causal=False, rotary=ROTARY)
BLOCK = BlockSpec(ATTENTION, FeedForwardSpec(W, 12, Activation.GELU), NormSpec(W, 1e-6), NormPlacement.PRE)
WINDOWED = replace(BLOCK, attention=replace(ATTENTION, window=4))
STACK = SignalStackSpec(PackedSpec(W, 3), (WINDOWED, BLOCK), 3)


def places_of(grids, merged=2):
    """Rows and columns, those of each image, and its first patch, of both halves."""
    sizes = torch.tensor(grids)
    count = int(sizes.prod(dim=1).sum())
    function = txgraphs.packed.patch_places(merged)
    return [
        torch.from_numpy(one)
        for one in check(
            lambda grid, _: txmodels.packed.patch_places(merged, grid), function, sizes, random(count, 3)
        )
    ]


@pytest.mark.parametrize("grids", GRIDS, ids=str)
def test_rows_and_columns_are_those_of_the_library(grids):
    coordinates, sides, first = places_of(grids)
    expected = vision_utils.get_vision_position_ids(torch.tensor(grids), 2)  # (N, 2)
    assert torch.equal(coordinates[:, 0].T, expected)
    bounds = vision_utils.get_vision_cu_seqlens(torch.tensor(grids)).tolist()
    assert first.unique().tolist() == bounds[:-1]
    sizes = torch.tensor(grids)
    assert torch.equal(sides[:, 0].T, sizes[:, 1:].repeat_interleave(sizes.prod(dim=1), dim=0))


@pytest.mark.parametrize("side", [2, 5])
@pytest.mark.parametrize("grids", GRIDS, ids=str)
def test_learned_positions_are_those_of_the_library(grids, side):
    coordinates, sides, _ = places_of(grids)
    table = random(side**2, W)
    [position] = check(
        partial(txmodels.packed.grid_positions, side),
        txgraphs.packed.grid_positions(side),
        coordinates,
        sides,
        table,
    )
    taps, weights = vision_utils.get_vision_interpolation_indices_and_weights(
        torch.tensor(grids), side, align_corners=True, spatial_merge_size=2
    )
    expected = (table[taps] * weights[:, :, None]).sum(1)
    np.testing.assert_allclose(position[0], expected, atol=1e-5)


def test_squares_of_other_sizes():
    coordinates, *_ = places_of([(1, 6, 9), (1, 3, 3)], merged=3)
    expected = vision_utils.get_vision_position_ids(torch.tensor([(1, 6, 9), (1, 3, 3)]), 3)
    assert torch.equal(coordinates[:, 0].T, expected)
    coordinates, *_ = places_of([(1, 1, 1), (1, 2, 3)], merged=1)
    assert coordinates[:, 0].T.tolist() == [[0, 0], [0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


@pytest.mark.parametrize("window", [None, 2, 4, 6])
@pytest.mark.parametrize("grids", GRIDS, ids=str)
def test_masks_are_the_segments_of_the_library(grids, window):
    """The library sorts patches by window and passes segment lengths; the mask must select the same pairs."""
    sizes = torch.tensor(grids)
    [mask] = check(
        partial(txmodels.packed.window_mask, window), txgraphs.packed.window_mask(window), *places_of(grids)
    )
    order = torch.arange(mask.shape[-1])
    bounds = vision_utils.get_vision_cu_seqlens(sizes)
    if window is not None:
        squares, bounds = vision_utils.get_vision_window_index(sizes, 2, 7 * window, 7)
        order = (4 * squares[:, None] + torch.arange(4)).flatten()
    expected = np.zeros(mask.shape[2:], bool)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        expected[np.ix_(order[first:last], order[first:last])] = True
    np.testing.assert_array_equal(mask[0, 0], expected)


@pytest.mark.parametrize("grids", [grids for grids in GRIDS if len(grids) > 1], ids=str)
def test_an_encoder_of_packed_patches(grids):
    """Of several images at once, each as it is alone."""
    module, sizes = SignalEncoder(STACK), torch.tensor(grids)
    x = random(int(sizes.prod(dim=1).sum()), 54)
    with torch.no_grad():
        together, _ = seeded(module)(x, grids=sizes)
        counts = sizes.prod(dim=1).tolist()
        for one, grid, part in zip(x.split(counts), sizes, together[0].split(counts), strict=True):
            single, _ = module(one, grids=grid[None])
            assert (single[0] - part).abs().max() < 1e-5
    shapes = {name: tuple(value.shape) for name, value in module.embedding.named_parameters()}
    assert shapes == OF_SPEC[PackedSpec].parameters(STACK.embedding)


@pytest.mark.parametrize("axes", [(0, 1, 2, 0), (2, 2, 1, 0)], ids=str)
def test_rotation_on_several_axes(axes):
    spec = RotarySpec((1.0, 0.3, 0.1, 0.03), axes=axes)
    positions = integers(50, 3, 2, 5)
    module = partial(txmodels.position.rotation, spec)
    cos, sin = check(module, txgraphs.position.rotation(spec, ir.DataType.FLOAT), positions)
    angles = torch.stack([positions[axis] * spec.frequencies[pair] for pair, axis in enumerate(axes)], dim=2)
    np.testing.assert_allclose(cos, angles.cos(), atol=1e-6)
    np.testing.assert_allclose(sin, angles.sin(), atol=1e-6)
    same = positions[:1].expand(3, -1, -1)
    plain, _ = txmodels.position.rotation(replace(spec, axes=()), positions[0])
    assert torch.equal(module(same)[0], plain)
    assert torch.equal(module(positions[0])[0], plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(ROTARY, axes=(0, 1)), "axes are 2 numbers from 0, expected 4 from 0"),
        (lambda: replace(ROTARY, axes=(0, 1, -1, 0)), "axes are 4 numbers from -1"),
        (
            lambda: replace(ROTARY, long_frequencies=(1.0,) * 4, short_length=3),
            "long_frequencies with positions on several axes",
        ),
        (lambda: replace(STACK, embedding=PackedSpec(W, 3, merged=3)), "the window 4 over packed patches"),
        (
            lambda: replace(STACK, blocks=(replace(BLOCK, attention=replace(ATTENTION, rotary=None)),)),
            "expected attention with rotary positions on axes 0 and 1",
        ),
        (
            lambda: replace(STACK, blocks=(replace(BLOCK, attention=replace(ATTENTION, unmasked=True)),)),
            "unmasked is True",
        ),
        (lambda: EncoderSpec(STACK), "embedding is PackedSpec, which a VisionLanguageSpec alone reads"),
        (lambda: PackedSpec(W, 3, merged=65), "merged is 65 and side 0, expected up to 64"),
        (lambda: PackedSpec(W, 0), "patch_size"),
    ],
)
def test_what_cannot_be_is_refused(make, message):
    with pytest.raises(SpecError, match=message):
        make()
