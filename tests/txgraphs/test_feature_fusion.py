"""Maps of features, their fusion, and depths: both halves on the same numbers, at grids of any size."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.feature_fusion
import txgraphs.heads.depth
import txgraphs.heads.segments
import txmodels.feature_fusion
import txmodels.heads.depth
import txmodels.heads.segments
from helpers.twins import check, random, seeded
from torch.utils.flop_counter import FlopCounterMode
from txmodels.feature_fusion import FeatureFusion, FeatureMaps

from txexport.parts import head_of
from txexport.parts.heads.depth import operations
from txexport.parts.heads.segments import operations_over_patches
from txexport.spec import (
    Activation,
    BatchNormSpec,
    ClassReadout,
    DepthSpec,
    FeatureFusionSpec,
    FeatureMapSpec,
    FusedSegmentsSpec,
    HeadKind,
    HeadSpec,
)

B, W, SIDE = 2, 8, 3
MAPS = tuple(FeatureMapSpec(*part) for part in ((1, 5, 4.0), (2, 6, 2.0), (4, 7, 1.0), (6, 3, 0.5)))
FUSION = FeatureFusionSpec(MAPS, 7, SIDE)
DEPTH = DepthSpec(FUSION, head_size=5)
NORM = BatchNormSpec(7, 1e-5)
DOUBLING = replace(FUSION, doubling=True)
KINDS = [FUSION, replace(FUSION, norm=NORM, bias=False), replace(FUSION, norm=NORM), DOUBLING]
READING = tuple(replace(part, readout=ClassReadout.PROJECT) for part in MAPS)
GRIDS = [(1, 1), (2, 5), (5, 4), (7, 3)]


def states(grid, spec=FUSION):
    count = spec.tokens + grid[0] * grid[1]
    return {str(layer): random(B, count, W) for layer in spec.layers}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("part", MAPS)
@pytest.mark.parametrize("tokens", [0, 1, 3])
def test_feature_map(part, grid, tokens):
    module = txmodels.feature_fusion.FeatureMap(part, tokens, W, 7)
    function = partial(txgraphs.feature_fusion.feature_map, part, tokens)
    [features] = check(module, function, random(B, tokens + grid[0] * grid[1], W), torch.tensor(grid))
    assert features.shape == (B, 7, *FeatureFusionSpec((part,), 7, SIDE).sides(*grid)[0])


@pytest.mark.parametrize("readout", [ClassReadout.ADD, ClassReadout.PROJECT])
@pytest.mark.parametrize("activation", [Activation.GELU, Activation.RELU])
def test_class_token_in_a_feature_map(readout, activation):
    part = replace(MAPS[1], readout=readout, activation=activation)
    module = txmodels.feature_fusion.FeatureMap(part, 3, W, 7)
    function = partial(txgraphs.feature_fusion.feature_map, part, 3)
    check(module, function, random(B, 3 + 2 * 5, W), torch.tensor((2, 5)))


@pytest.mark.parametrize("size", [(1, 1), (3, 4), (9, 2)])
@pytest.mark.parametrize("spec", KINDS)
def test_feature_fusion(spec, size):
    function, size = partial(txgraphs.feature_fusion.feature_fusion, spec), torch.tensor(size)
    x, features = random(B, 7, 3, 5), random(B, 7, 3, 5)
    check(FeatureFusion(spec, first=False), function, x, size, features)
    check(FeatureFusion(spec, first=True), function, x, size)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("maps", [MAPS, MAPS[1:3], MAPS[:1]])
def test_feature_maps(maps, grid):
    spec = replace(FUSION, maps=maps)
    function = partial(txgraphs.feature_fusion.feature_maps, spec)
    check(FeatureMaps(spec, W), function, states(grid, spec), torch.tensor(grid))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("fusion", KINDS)
def test_fused_segments_head(fusion, grid):
    """Logits are twice as high and wide as the fused map, which is twice as large as the finest."""
    spec = FusedSegmentsSpec(fusion, NORM)
    module = txmodels.heads.segments.FusedSegmentsHead(spec, W, 4)
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=4, segments=spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, W, 0)
    pixels = random(B, 3, grid[0] * SIDE + 2, grid[1] * SIDE)
    function = partial(txgraphs.heads.segments.fused_segments_head, spec)
    [logits] = check(module, function, states(grid), pixels)
    high, wide = fusion.fused_sides(*grid)[0]
    assert logits.shape == (B, 4, 4 * high, 4 * wide)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize(
    "kind", [{}, {"metric": True, "max_depth": 20.0}, {"fusion": replace(FUSION, maps=READING)}]
)
def test_depth_head(kind, grid):
    """Depths are those of the pixels of whole patches."""
    spec = replace(DEPTH, **kind)
    module = txmodels.heads.depth.DepthHead(spec, W)
    head = HeadSpec(HeadKind.DEPTH, tied=False, depth=spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, W, 0)
    pixels = random(B, 3, grid[0] * SIDE + 2, grid[1] * SIDE)
    [depth] = check(module, partial(txgraphs.heads.depth.depth_head, spec), states(grid), pixels)
    assert depth.shape == (B, grid[0] * SIDE, grid[1] * SIDE)
    assert (depth >= 0).all()


def test_projection_and_interpolation_commute():
    """The original projects behind the interpolation."""
    module = seeded(FeatureFusion(FUSION, first=True)).requires_grad_(False)
    x, size = random(B, 7, 3, 5), torch.tensor([7, 11])
    behind = module.project(txmodels.feature_fusion.corner_aligned(module.refine(x), size))
    assert np.abs((module(x, size) - behind).numpy()).max() <= 1e-5


@pytest.mark.parametrize("grid", [(2, 5), (5, 4)])
@pytest.mark.parametrize("maps", [MAPS, READING])
def test_operations_are_those_that_pytorch_counts(maps, grid):
    fusion = replace(FUSION, maps=maps)
    spec = replace(DEPTH, fusion=fusion)
    module = txmodels.heads.depth.DepthHead(spec, W).requires_grad_(False)
    pixels = torch.zeros(1, 3, grid[0] * SIDE, grid[1] * SIDE)
    with FlopCounterMode(display=False) as counter:
        module({name: state[:1] for name, state in states(grid).items()}, pixels)
    read = grid[0] * grid[1] + FUSION.tokens  # vectors, with which matrices are counted elsewhere
    matrices = sum(2 * W * W for part in maps if part.readout == ClassReadout.PROJECT)
    assert operations(spec, W, *grid) + 2 * read * matrices == counter.get_total_flops()


@pytest.mark.parametrize("grid", [(2, 5), (5, 4)])
def test_operations_of_fused_segments_are_those_that_pytorch_counts(grid):
    spec = FusedSegmentsSpec(FUSION, NORM)
    module = txmodels.heads.segments.FusedSegmentsHead(spec, W, 4).requires_grad_(False)
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=4, segments=spec)
    pixels = torch.zeros(1, 3, grid[0] * SIDE, grid[1] * SIDE)
    with FlopCounterMode(display=False) as counter:
        module({name: state[:1] for name, state in states(grid).items()}, pixels)
    assert operations_over_patches(head, W, *grid) == counter.get_total_flops()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("projected", [False, True])
def test_depths_of_maps_that_double(projected, grid):
    """Each has twice the rows and columns of the one before, from the coarsest on: more, for an odd grid."""
    spec = DepthSpec(DOUBLING, head_size=5, projected=projected)
    module = txmodels.heads.depth.DepthHead(spec, W)
    head = HeadSpec(HeadKind.DEPTH, tied=False, depth=spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, W, 0)
    pixels = random(B, 3, grid[0] * SIDE + 2, grid[1] * SIDE)
    [depth] = check(module, partial(txgraphs.heads.depth.depth_head, spec), states(grid), pixels)
    high, wide = (32 * -(-side // 2) for side in grid)
    assert depth.shape == (B, high, wide)
    with FlopCounterMode(display=False) as counter:
        module.requires_grad_(False)({name: state[:1] for name, state in states(grid).items()}, pixels[:1])
    assert operations(spec, W, *grid) == counter.get_total_flops()
