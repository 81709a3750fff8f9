"""A pyramid of maps over patches: both halves on the same numbers, at grids of any size."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.heads.segments
import txgraphs.pyramid
import txmodels.heads.segments
import txmodels.pyramid
from helpers.twins import check, random
from torch.nn.functional import adaptive_avg_pool2d
from torch.utils.flop_counter import FlopCounterMode

from txexport.parts import head_of
from txexport.parts.heads.segments import operations_over_maps, operations_over_patches
from txexport.spec import BatchNormSpec, HeadKind, HeadSpec, MapPyramidSpec, PyramidSpec

B, W, SIDE = 2, 6, 3
SPEC = PyramidSpec((0, 1, 3, 4), (1, 2, 3, 6), BatchNormSpec(W, 1e-5), SIDE)
MAPS = MapPyramidSpec((4, 7, 5), (1, 2, 6), BatchNormSpec(W, 1e-5))
KINDS = [SPEC, replace(SPEC, scales=(2, 7), tokens=3, norm=BatchNormSpec(W, 1e-2)), replace(SPEC, tokens=0)]
GRIDS = [(2, 2), (2, 7), (5, 4), (13, 9)]


def states(grid, spec=SPEC, rows=B):
    count = spec.tokens + grid[0] * grid[1]
    # With larger numbers, float32's own rounding in PyTorch is 1e-5 on some processors.
    return {str(layer): random(rows, count, W) / 2 for layer in spec.layers}


def test_finest():
    module, function = txmodels.pyramid.Finest(SPEC), partial(txgraphs.pyramid.finest, SPEC)
    [y] = check(module, function, random(B, W, 5, 4))
    assert y.shape == (B, W, 20, 16)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spec", KINDS)
def test_pyramid(spec, grid):
    module, function = txmodels.pyramid.Pyramid(spec), partial(txgraphs.pyramid.pyramid, spec)
    [joint] = check(module, function, states(grid, spec), torch.tensor(grid))
    assert joint.shape == (B, W, 4 * grid[0], 4 * grid[1])


@pytest.mark.parametrize("grid", GRIDS)
def test_pyramid_head(grid):
    """Pixels beyond whole patches count for nothing."""
    module = txmodels.heads.segments.PyramidHead(SPEC, 5)
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=5, segments=SPEC)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, W, 0)
    pixels = random(B, 3, grid[0] * SIDE + 2, grid[1] * SIDE)
    function = partial(txgraphs.heads.segments.pyramid_head, SPEC)
    [logits] = check(module, function, states(grid), pixels)
    assert logits.shape == (B, 5, 4 * grid[0], 4 * grid[1])


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (5, 5), (6, 20), (19, 7)])
@pytest.mark.parametrize("scale", [1, 2, 3, 6, 7])
def test_means_are_those_of_pytorch(scale, size):
    """Also where a map has fewer places than its squares."""
    x = random(B, W, *size)
    means = txmodels.pyramid.square_means(x, scale)
    assert (means - adaptive_avg_pool2d(x, scale)).abs().max() < 1e-6


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spec", KINDS)
def test_operations_are_those_that_pytorch_counts(spec, grid):
    module = txmodels.heads.segments.PyramidHead(spec, 5).requires_grad_(False)
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=5, segments=spec)
    pixels = torch.zeros(1, 3, grid[0] * SIDE, grid[1] * SIDE)
    with FlopCounterMode(display=False) as counter:
        module(states(grid, spec, rows=1), pixels)
    assert operations_over_patches(head, W, *grid) == counter.get_total_flops()


@pytest.mark.parametrize("grid", [(4, 4), (9, 6), (5, 13)])
def test_head_over_maps_of_stages(grid):
    """Maps are of half the sides of those before, or one more; scores have the pixels of the image."""
    module = txmodels.heads.segments.MapPyramidHead(MAPS, 5)
    head = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=5, segments=MAPS)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, W, 0)
    grids = [tuple(-(-side // 2**level) for side in grid) for level in range(3)]

    def read(rows):
        maps = {str(n): random(rows, *grids[n], size) for n, size in enumerate(MAPS.sizes)}
        return maps | {"pixels": random(rows, 3, 4 * grid[0] + 1, 4 * grid[1] - 1)}

    function = partial(txgraphs.heads.segments.map_pyramid_head, MAPS)
    [logits] = check(module, function, read(B))
    assert logits.shape == (B, 5, 4 * grid[0] + 1, 4 * grid[1] - 1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(read(1))
    assert operations_over_maps(MAPS, 5, grids) == counter.get_total_flops()


def test_map_pyramid():
    maps = {str(n): random(B, size, 6 - n, 5 - n) for n, size in enumerate(MAPS.sizes)}
    module = txmodels.pyramid.MapPyramid(MAPS)
    function = partial(txgraphs.pyramid.map_pyramid, MAPS)

    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.pyramid = module

        def forward(self, maps):
            return self.pyramid(*maps.values())

    def placed(place, maps):
        return function(place / "pyramid", maps)

    [joint] = check(Named(), placed, maps)
    assert joint.shape == (B, W, 6, 5)
