"""Depths from the maps of stages: both halves on the same numbers, at grids of any size."""

from functools import partial

import pytest
import txgraphs.heads.depth
import txgraphs.selective_fusion
import txmodels.heads.depth
from helpers.twins import check, random
from torch.utils.flop_counter import FlopCounterMode
from txmodels.selective_fusion import SelectiveFusion

from txexport.parts import head_of
from txexport.parts.heads.depth import operations_over_stages
from txexport.spec import HeadKind, HeadSpec, StagedDepthSpec

B = 2
SPEC = StagedDepthSpec((5, 9, 7), 9, 1e-5, 20.0)
KINDS = [SPEC, StagedDepthSpec((6, 6), 6, 1e-2), StagedDepthSpec((3,), 4, 1e-5, 2.5)]
GRIDS = [(4, 8), (12, 4), (20, 28)]  # of the finest of three stages


def maps(spec, grid, rows=B):
    sides = [tuple(side // 2**stage for side in grid) for stage in range(len(spec.sizes))]
    return {str(n): random(rows, *sides[n], size) for n, size in enumerate(spec.sizes)}


@pytest.mark.parametrize("size", [(1, 1), (5, 4)])
@pytest.mark.parametrize("spec", KINDS)
def test_selective_fusion(spec, size):
    function = partial(txgraphs.selective_fusion.selective_fusion, spec)
    check(SelectiveFusion(spec), function, random(B, spec.size, *size), random(B, spec.size, *size) + 1)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spec", KINDS)
def test_staged_depth_head(spec, grid):
    module = txmodels.heads.depth.StagedDepthHead(spec)
    head = HeadSpec(HeadKind.DEPTH, tied=False, depth=spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, 7, 0)
    function = partial(txgraphs.heads.depth.staged_depth_head, spec)
    [depth] = check(module, function, maps(spec, grid))
    assert depth.shape == (B, 4 * grid[0], 4 * grid[1])
    assert (depth >= 0).all()
    assert (depth <= spec.max_depth).all()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spec", KINDS)
def test_operations_are_those_that_pytorch_counts(spec, grid):
    module = txmodels.heads.depth.StagedDepthHead(spec).requires_grad_(False)
    read = maps(spec, grid, rows=1)
    with FlopCounterMode(display=False) as counter:
        module(read)
    grids = [one.shape[1:3] for one in read.values()]
    assert operations_over_stages(spec, grids) == counter.get_total_flops()
