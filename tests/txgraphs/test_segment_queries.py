"""Group norms, pyramids of maps, and masks of queries: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.group_norm
import txgraphs.heads.masks
import txgraphs.pixel_pyramid
from helpers.twins import check, random
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.maskformer import modeling_maskformer as original
from txmodels.group_norm import GroupNorm
from txmodels.heads.masks import MasksHead, every_place, mask_scores
from txmodels.pixel_pyramid import NormedConvolution, PixelPyramid, nearest

from txexport.errors import SpecError
from txexport.parts import head_of
from txexport.parts.heads.masks import operations
from txexport.spec import (
    GroupNormSpec,
    HeadKind,
    HeadSpec,
    MasksSpec,
    NormSpec,
    PixelPyramidSpec,
    QueryLayersSpec,
)
from txexport.spec.enums import Activation

B = 2
NORM = GroupNormSpec(12, 3, 1e-3)
PYRAMID = PixelPyramidSpec((5, 6, 8), NORM, 10)
MASKS = MasksSpec(PYRAMID, QueryLayersSpec(2, 4, 14), 7, Activation.RELU, NormSpec(16, 1e-3))
HEAD = HeadSpec(HeadKind.MASKS, tied=False, bias=True, labels=4, masks=MASKS)
GRIDS = [(8, 8), (9, 13), (1, 1), (5, 20)]


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def maps(grid, last=True):
    """Maps of a grid and of two coarser ones, their channels at the end or not."""
    sizes = [grid, *[tuple(-(-side // factor) for side in grid) for factor in (2, 4)]]
    pairs = enumerate(zip(sizes, PYRAMID.sizes, strict=True))
    return {str(n): random(B, *((*one, size) if last else (size, *one))) for n, (one, size) in pairs}


@pytest.mark.parametrize("groups", [1, 3, 12])
@pytest.mark.parametrize("grid", [(1, 2), (4, 7)])
def test_group_norm(grid, groups):
    spec = GroupNormSpec(12, groups, 1e-2)
    check(GroupNorm(spec), partial(txgraphs.group_norm.group_norm, spec), 3 * random(B, 12, *grid) + 1)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kernel", [1, 3])
def test_normed_convolution(kernel, bias):
    module = NormedConvolution(5, kernel, NORM, bias)
    function = partial(txgraphs.pixel_pyramid.normed_convolution, kernel, NORM, bias)
    check(module, function, random(B, 5, 6, 7))


@pytest.mark.parametrize("coarse", [(1, 1), (3, 5), (7, 4)])
@pytest.mark.parametrize("grid", [(1, 1), (6, 9), (13, 8), (28, 37)])
def test_nearest_places(grid, coarse):
    check(nearest, txgraphs.pixel_pyramid.nearest, random(B, 3, *coarse), random(B, 4, *grid))


@pytest.mark.parametrize("grid", GRIDS)
def test_pyramid(grid):
    module = PixelPyramid(PYRAMID)
    [y] = check(module, partial(txgraphs.pixel_pyramid.pixel_pyramid, PYRAMID), maps(grid, last=False))
    assert y.shape == (B, PYRAMID.size, *grid)


@pytest.mark.parametrize("grid", GRIDS)
def test_pyramid_against_the_original(grid):
    """The library's pixel decoder with our weights, which has 32 groups and their epsilon."""
    spec = PixelPyramidSpec(PYRAMID.sizes, GroupNormSpec(64, 32, 1e-5), PYRAMID.size)
    module = PixelPyramid(spec)
    *finer, coarsest = spec.sizes
    theirs = original.MaskFormerPixelDecoder(
        in_features=coarsest, lateral_widths=finer, feature_size=64, mask_feature_size=spec.size
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.3 * random(*parameter.shape))
    parts = [theirs.fpn.stem, *(part for layer in theirs.fpn.layers for part in (layer.proj, layer.block))]
    ours = [module.stem]
    for side, convolution in zip(module.sides, module.convolutions, strict=True):
        ours += [side, convolution]
    for part, mine in zip(parts, ours, strict=True):
        names = {"0.weight": "convolution.weight", "1.weight": "norm.weight", "1.bias": "norm.bias"}
        values = mine.state_dict()
        part.load_state_dict({name: values[source] for name, source in names.items()})
    theirs.mask_projection.load_state_dict(module.project.state_dict())
    inputs = maps(grid, last=False)
    with torch.no_grad():
        expected = theirs([value.clone() for value in inputs.values()]).last_hidden_state
        assert (module(inputs) - expected).abs().max() < 1e-5


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("width", [8, 16])
def test_masks_head(width, grid):
    """Of queries as wide as the coarsest map, and of others."""
    spec = replace(HEAD, masks=replace(MASKS, norm=NormSpec(width, 1e-3)))
    module = MasksHead(spec)
    assert shapes(module) == head_of(spec).parameters(spec, PYRAMID.sizes[-1], 0)
    classes, masks = check(module, partial(txgraphs.heads.masks.masks_head, spec), maps(grid))
    assert classes.shape == (B, 7, 4)
    assert masks.shape == (B, 7, *grid)


def test_every_place_and_every_product():
    check(every_place, txgraphs.heads.masks.every_place, random(B, 3, 5, 4))
    check(mask_scores, txgraphs.heads.masks.mask_scores, random(B, 7, 6), random(B, 6, 3, 5))


@pytest.mark.parametrize("width", [8, 16])
def test_operations_are_those_that_pytorch_counts(width):
    masks = replace(MASKS, norm=NormSpec(width, 1e-3))
    spec = replace(HEAD, masks=masks)
    module = MasksHead(spec).requires_grad_(False)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module({name: value[:1] for name, value in maps((8, 12)).items()})
    matrices = sum(value.numel() for value in module.parameters() if value.ndim == 2)
    work = operations(masks, spec.labels, [(8, 12), (4, 6), (2, 3)]) + 2 * matrices
    assert work == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(PYRAMID, sizes=(5,)), "expected two or more"),
        (lambda: replace(NORM, groups=5), "12 channels in 5 groups"),
        (lambda: replace(MASKS, layers=QueryLayersSpec(1, 3, 5)), "3 heads, expected a divisor of 16"),
        (lambda: replace(MASKS, norm=NormSpec(18, 1e-3), layers=QueryLayersSpec(1, 2, 5)), "18 wide"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
