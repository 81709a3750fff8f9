"""Heat maps of points: both halves on the same numbers, at grids of any size."""

from functools import partial

import pytest
import txgraphs.heads.pose
import txmodels.heads.pose
from helpers.twins import check, random
from torch.utils.flop_counter import FlopCounterMode

from txexport.parts import head_of
from txexport.parts.heads.pose import operations
from txexport.spec import BatchNormSpec, HeadKind, HeadSpec, PoseSpec

B, W, SIDE = 2, 8, 3
KINDS = [
    PoseSpec((2,), SIDE),
    PoseSpec((1,), SIDE, tokens=2, factor=3),
    PoseSpec((2,), SIDE, norm=BatchNormSpec(6, 1e-5)),
    PoseSpec((2,), SIDE, tokens=1, norm=BatchNormSpec(5, 1e-2)),
]
GRIDS = [(1, 1), (4, 3), (2, 7)]


def read(spec, grid, rows=B):
    states = {str(spec.layers[0]): random(rows, spec.tokens + grid[0] * grid[1], W)}
    return states, random(rows, 3, grid[0] * SIDE + 1, grid[1] * SIDE)


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spec", KINDS)
def test_pose_head(spec, grid):
    module = txmodels.heads.pose.PoseHead(spec, W, 5)
    head = HeadSpec(HeadKind.POSE, tied=False, labels=5, pose=spec)
    assert {k: tuple(v.shape) for k, v in module.named_parameters()} == head_of(head).parameters(head, W, 0)
    [heat] = check(module, partial(txgraphs.heads.pose.pose_head, spec), *read(spec, grid))
    assert heat.shape == (B, 5, spec.factor * grid[0], spec.factor * grid[1])


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("spec", KINDS)
def test_operations_are_those_that_pytorch_counts(spec, grid):
    module = txmodels.heads.pose.PoseHead(spec, W, 5).requires_grad_(False)
    head = HeadSpec(HeadKind.POSE, tied=False, labels=5, pose=spec)
    with FlopCounterMode(display=False) as counter:
        module(*read(spec, grid, rows=1))
    assert operations(head, W, *grid) == counter.get_total_flops()
