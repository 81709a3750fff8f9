"""Deformable pyramids and masked attention of queries: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.deformable_attention
import txgraphs.deformable_pyramid
import txgraphs.heads.masked_queries
import txgraphs.query_stack
from helpers.twins import check, random
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers import Mask2FormerConfig
from transformers.models.mask2former import modeling_mask2former as original
from txmodels.deformable_attention import DeformableAttention
from txmodels.deformable_pyramid import DeformableLayer, DeformablePyramid, centres
from txmodels.heads.masked_queries import MaskedQueriesHead, within_masks
from txmodels.query_stack import QueryLayer

from txexport.errors import SpecError
from txexport.parts import head_of
from txexport.parts.heads.masked_queries import operations
from txexport.spec import (
    DeformablePyramidSpec,
    GroupNormSpec,
    HeadKind,
    HeadSpec,
    MaskedQueriesSpec,
    NormSpec,
    QueryBlockSpec,
    QueryLayersSpec,
)
from txexport.spec.enums import Activation

B, W = 2, 16
PYRAMID = DeformablePyramidSpec(
    (5, 6, 7, 8), GroupNormSpec(12, 3, 1e-3), QueryLayersSpec(2, 2, 14), 10, 3, 1e-3
)
BLOCK = QueryBlockSpec(NormSpec(W, 1e-3), Activation.RELU, crossed_first=True)
MASKS = MaskedQueriesSpec(PYRAMID, QueryLayersSpec(4, 4, 18), 5, BLOCK, True)
HEAD = HeadSpec(HeadKind.MASKED_QUERIES, tied=False, bias=True, labels=4, masked_queries=MASKS)
GRIDS = [(8, 8), (9, 13), (1, 2)]


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def maps(grid, last=True, sizes=PYRAMID.sizes):
    """Maps of a grid and of three coarser ones, their channels at the end or not."""
    grids = [tuple(-(-side // factor) for side in grid) for factor in (1, 2, 4, 8)]
    pairs = enumerate(zip(grids, sizes, strict=True))
    return {str(n): random(B, *((*one, size) if last else (size, *one))) for n, (one, size) in pairs}


@pytest.mark.parametrize("rows", [1, B])
def test_attention_to_points(rows):
    """Of references that all rows share too; maps of one row or column, and offsets beyond their edges."""
    spec = PYRAMID.attention
    sizes = {"0": torch.tensor([1, 4]), "1": torch.tensor([3, 2]), "2": torch.tensor([5, 1])}
    function = partial(txgraphs.deformable_attention.deformable_attention, spec)
    points = random(rows, 6, 2).sigmoid()
    check(DeformableAttention(spec), function, 4 * random(B, 6, 12), points, random(B, 15, 12), sizes)


@pytest.mark.parametrize("grid", [(1, 1), (2, 5), (7, 3)])
def test_centres_of_places(grid):
    [points] = check(centres, txgraphs.deformable_pyramid.centres, random(B, *grid, 3))
    assert points.shape == (1, grid[0] * grid[1], 2)
    assert abs(points.mean(axis=1) - 0.5).max() < 1e-6


def test_deformable_layer():
    sizes = {"0": torch.tensor([1, 4]), "1": torch.tensor([3, 2]), "2": torch.tensor([5, 1])}
    layer = PYRAMID.block, PYRAMID.layers, PYRAMID.attention
    function = partial(txgraphs.deformable_pyramid.deformable_layer, *layer)
    arguments = random(B, 15, 12), random(B, 15, 12) + 1, random(1, 15, 2).sigmoid(), sizes
    check(DeformableLayer(*layer), function, *arguments)


@pytest.mark.parametrize("grid", GRIDS)
def test_pyramid(grid):
    function = partial(txgraphs.deformable_pyramid.deformable_pyramid, PYRAMID)
    pixels, *levels = check(DeformablePyramid(PYRAMID), function, maps(grid, last=False))
    assert pixels.shape == (B, PYRAMID.size, *grid)
    assert [one.shape[2:] for one in levels] == [tuple(-(-s // f) for s in grid) for f in (8, 4, 2)]


@pytest.mark.parametrize("grid", GRIDS)
def test_pyramid_against_the_original(grid):
    """The library's pixel decoder with our weights, whose norms have 32 groups and its epsilon."""
    spec = replace(PYRAMID, norm=GroupNormSpec(64, 32, 1e-5), points=4, eps=1e-5)
    module = DeformablePyramid(spec).eval()
    sizes = {"encoder_layers": 2, "num_attention_heads": 2, "encoder_feedforward_dim": 14}
    config = Mask2FormerConfig(feature_size=64, mask_feature_size=10, **sizes)
    theirs = original.Mask2FormerPixelDecoder(config, [*spec.sizes]).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.2 * random(*parameter.shape))
        theirs.level_embed.copy_(module.levels.weight)
    for sequence, part in zip(
        [*theirs.input_projections, theirs.adapter_1, theirs.layer_1],
        [*module.projects, module.side, module.convolution],
        strict=True,
    ):
        sequence[0].load_state_dict(part.convolution.state_dict())
        sequence[1].load_state_dict(part.norm.state_dict())
    theirs.mask_projection.load_state_dict(module.project.state_dict())
    for layer, part in zip(theirs.encoder.layers, module.layers, strict=True):
        for name, ours in (
            ("self_attn.sampling_offsets", part.attention.offsets),
            ("self_attn.attention_weights", part.attention.shares),
            ("self_attn.value_proj", part.attention.v),
            ("self_attn.output_proj", part.attention.o),
            ("self_attn_layer_norm", part.attention_norm),
            ("fc1", part.feed_forward.up),
            ("fc2", part.feed_forward.down),
            ("final_layer_norm", part.feed_forward_norm),
        ):
            layer.get_submodule(name).load_state_dict(ours.state_dict())
    inputs = maps(grid, last=False)
    with torch.no_grad():
        expected = theirs([*inputs.values()])
        pixels, *levels = module(inputs)
    assert (pixels - expected.mask_features).abs().max() < 1e-5
    for level, other in zip(levels, expected.multi_scale_features, strict=True):
        assert (level - other).abs().max() < 1e-5


@pytest.mark.parametrize("pre_norm", [True, False])
def test_layer_that_reads_the_map_first(pre_norm):
    spec = replace(BLOCK, pre_norm=pre_norm)
    module = QueryLayer(spec, MASKS.layers, True)
    function = partial(txgraphs.query_stack.query_layer, spec, MASKS.layers)
    mask = random(B, 1, 3, 6) > 0
    mask[:, :, :, 0] = True
    check(module, function, random(B, 3, W), random(B, 3, W), mask, random(B, 6, W), random(B, 6, W))


@pytest.mark.parametrize("level", [(1, 1), (3, 4), (11, 9)])
def test_places_within_masks(level):
    """One mask has no place, and its query sees all."""
    masks = random(B, 5, 7, 9)
    masks[0, 2] = -1
    [seen] = check(within_masks, txgraphs.heads.masked_queries.within_masks, masks, random(B, 3, *level))
    assert seen.shape == (B, 1, 5, level[0] * level[1])
    assert seen[0, 0, 2].all()
    assert seen.any(axis=3).all()


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("projected", [True, False])
def test_masked_queries_head(projected, grid):
    """Of queries as wide as the maps, and of others."""
    width = W if projected else PYRAMID.hidden_size
    masks = replace(MASKS, block=replace(BLOCK, norm=NormSpec(width, 1e-3)), projected=projected)
    spec = replace(HEAD, masked_queries=masks)
    module = MaskedQueriesHead(spec)
    assert shapes(module) == head_of(spec).parameters(spec, PYRAMID.sizes[-1], 0)
    function = partial(txgraphs.heads.masked_queries.masked_queries_head, spec)
    classes, logits = check(module, function, maps(grid))
    assert classes.shape == (B, 5, 4)
    assert logits.shape == (B, 5, *grid)


def test_weights_for_every_row():
    check(
        lambda weight, x: weight.expand(x.shape[0], -1, -1),
        txgraphs.query_stack.of_every_row,
        random(3, 4),
        random(B, 5, 2, 2),
    )


@pytest.mark.parametrize("projected", [True, False])
def test_operations_are_those_that_pytorch_counts(projected):
    """PyTorch does not count what is read at points, which is weighed there."""
    width = W if projected else PYRAMID.hidden_size
    masks = replace(MASKS, block=replace(BLOCK, norm=NormSpec(width, 1e-3)), projected=projected)
    spec = replace(HEAD, masked_queries=masks)
    module = MaskedQueriesHead(spec).requires_grad_(False)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module({name: value[:1] for name, value in maps((8, 12)).items()})
    matrices = sum(value.numel() for value in module.parameters() if value.ndim == 2)
    cells, read = 24 + 6 + 2, PYRAMID.levels * PYRAMID.points * PYRAMID.hidden_size
    work = operations(masks, spec.labels, [(8, 12), (4, 6), (2, 3), (1, 2)]) + 2 * matrices
    assert work - 2 * PYRAMID.layers.num_layers * cells * read == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(PYRAMID, sizes=(5,)), "expected two or more"),
        (lambda: replace(PYRAMID, norm=GroupNormSpec(6, 3, 1e-3)), "expected a multiple of 4"),
        (lambda: replace(PYRAMID, layers=QueryLayersSpec(1, 5, 5)), "5 heads, expected a divisor of 12"),
        (lambda: replace(MASKS, layers=QueryLayersSpec(1, 3, 5)), "multiple of 4 and of them"),
        (lambda: replace(MASKS, block=replace(BLOCK, crossed_first=False)), "crossed_first is False"),
        (lambda: replace(MASKS, projected=False), "or projected=True"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
