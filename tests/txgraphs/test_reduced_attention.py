"""Layers over grids with fewer keys, merging by convolution, segments: both halves on the same numbers."""

from functools import partial

import pytest
import txgraphs.heads.segments
import txgraphs.patch_merging
import txgraphs.reduced_attention
import txmodels.heads.segments
from helpers.twins import check, random
from torch.utils.flop_counter import FlopCounterMode
from txmodels.patch_merging import ConvolvedMerging
from txmodels.reduced_attention import ConvolvedFeedForward, ReducedAttention

from txexport.parts import head_of
from txexport.parts.heads.segments import operations
from txexport.spec import (
    BatchNormSpec,
    ConvolvedFeedForwardSpec,
    ConvolvedMergingSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    ReducedAttentionSpec,
    SegmentsSpec,
)
from txexport.spec.attention_parameters import attention
from txexport.spec.enums import Activation
from txexport.spec.parameters import feed_forward, merging

B, W = 2, 12
GRIDS = [(4, 4), (5, 7), (9, 3)]
SEGMENTS = SegmentsSpec((5, 6, 7), 9, BatchNormSpec(9, 1e-5))
HEAD = HeadSpec(HeadKind.SEGMENTS, tied=False, labels=4, segments=SEGMENTS)


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("reduction", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_reduced_attention(bias, reduction, grid):
    norm = NormSpec(W, 1e-5) if reduction > 1 else None
    spec = ReducedAttentionSpec(W, 3, 4, reduction, norm, bias)
    module = ReducedAttention(spec)
    assert shapes(module) == attention(spec)
    function = partial(txgraphs.reduced_attention.reduced_attention, spec)
    check(module, function, random(B, *grid, W))


@pytest.mark.parametrize("grid", [(1, 1), *GRIDS])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_convolved_feed_forward(kernel, grid):
    spec = ConvolvedFeedForwardSpec(W, 10, Activation.GELU, kernel)
    module = ConvolvedFeedForward(spec)
    assert shapes(module) == feed_forward(spec)
    check(module, partial(txgraphs.reduced_attention.convolved_feed_forward, spec), random(B, *grid, W))


@pytest.mark.parametrize("grid", [(1, 1), *GRIDS])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (5, 3), (3, 1)])
def test_convolved_merging(kernel, stride, grid):
    """Rows and columns are rounded up, as `StagedStackSpec.grids` counts them."""
    spec = ConvolvedMergingSpec(W, 7, kernel, stride, NormSpec(7, 1e-5))
    module = ConvolvedMerging(spec)
    assert shapes(module) == merging(spec)
    [y] = check(module, partial(txgraphs.patch_merging.convolved_merging, spec), random(B, *grid, W))
    assert y.shape == (B, *(-(-side // stride) for side in grid), 7)


@pytest.mark.parametrize("grid", [(1, 1), (8, 12), (7, 5)])
def test_segments_head(grid):
    """Coarser maps of any size are interpolated to the finest."""
    module = txmodels.heads.segments.SegmentsHead(SEGMENTS, HEAD.labels)
    assert shapes(module) == head_of(HEAD).parameters(HEAD, 7, 0)
    grids = [grid, tuple(-(-side // 2) for side in grid), tuple(-(-side // 5) for side in grid)]
    maps = {str(n): random(B, *one, size) for n, (one, size) in enumerate(zip(grids, (5, 6, 7), strict=True))}
    [logits] = check(module, partial(txgraphs.heads.segments.segments_head, HEAD), maps)
    assert logits.shape == (B, 4, *grid)


def test_operations_are_those_that_pytorch_counts():
    module = txmodels.heads.segments.SegmentsHead(SEGMENTS, HEAD.labels).requires_grad_(False)
    grids = [(8, 12), (4, 6), (2, 3)]
    maps = {str(n): random(1, *one, size) for n, (one, size) in enumerate(zip(grids, (5, 6, 7), strict=True))}
    with FlopCounterMode(display=False) as counter:
        module(maps)
    projections = 2 * SEGMENTS.hidden_size * sum(SEGMENTS.sizes)  # of one vector of each map
    assert operations(SEGMENTS, HEAD.labels, grids) + projections == counter.get_total_flops()
