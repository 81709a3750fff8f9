"""Queries that begin as places of an image: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.deformable_attention
import txgraphs.doubled
import txgraphs.fusion_pyramid
import txgraphs.heads.boxes
import txgraphs.inputs.resnet_levels
import txgraphs.proposal_stack
import txmodels.inputs.resnet_levels
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.deformable_attention import DeformableAttention
from txmodels.doubled import doubled
from txmodels.fusion_pyramid import ConvolutionPair, Fusion, FusionPyramid
from txmodels.heads.boxes import RefinedBoxesHead, refined
from txmodels.proposal_stack import (
    BoxChange,
    BoxPositions,
    ProposalEncoder,
    ProposalLayer,
    Proposals,
    first_boxes,
    flat_map,
    map_positions,
    unflat_map,
)

from txexport.errors import SpecError
from txexport.parts import input_of
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import (
    BoxesSpec,
    DeformableAttentionSpec,
    FusionPyramidSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    ProposalStackSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    ResNetLevelsSpec,
)
from txexport.spec.enums import Activation

B, E, W, Q = 2, 8, 16, 7
NETWORK = ResNetLevelsSpec(E, (1, 2, 1), (8, 12, 16), levels=2, stem=8, image_size=(32, 48))
STACK = ProposalStackSpec(
    NETWORK,
    QueryLayersSpec(1, 2, 20),
    QueryBlockSpec(NormSpec(E, 1e-5), Activation.GELU),
    FusionPyramidSpec(E, 6, Activation.SILU, blocks=2),
    QueryLayersSpec(3, 4, 24),
    QueryBlockSpec(NormSpec(W, 1e-5), Activation.RELU),
    DeformableAttentionSpec(W, 4, 2, 3),
    Q,
    5,
)
SIZES = {"0": torch.tensor([4, 6]), "1": torch.tensor([2, 3])}


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def boxes(*shape):
    return torch.sigmoid(random(*shape, 4))


@pytest.mark.parametrize("size", [(16, 16), (32, 48)])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize(("bottleneck", "sizes"), [(True, (8, 12, 16)), (False, (8, 12, 12))])
def test_levels(bottleneck, sizes, levels, size):
    """Places are counted as the spec counts them; stages of equal width project what they do not pool."""
    spec = replace(NETWORK, bottleneck=bottleneck, sizes=sizes, levels=levels, image_size=size)
    module = txmodels.inputs.resnet_levels.ResnetLevelsEmbedding(spec)
    stack = replace(STACK, embedding=NETWORK)
    assert shapes(module) == input_of(stack).parameters(spec)
    function = partial(txgraphs.inputs.resnet_levels.resnet_levels_embedding, spec)
    maps = check(module, function, random(B, 3, *size))
    assert [x.shape for x in maps] == [(B, E, *grid) for grid in spec.grids]


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("inner", [6, E])
def test_pyramid(inner, levels):
    spec = replace(STACK.pyramid, inner=inner)
    maps = {str(n): random(B, E, 8 >> n, 12 >> n) for n in range(levels)}
    check(FusionPyramid(spec, levels), partial(txgraphs.fusion_pyramid.fusion_pyramid, spec), maps)


def test_parts_of_the_pyramid():
    spec, x = STACK.pyramid, random(B, E, 3, 5)
    check(ConvolutionPair(spec), partial(txgraphs.fusion_pyramid.convolution_pair, spec), random(B, 6, 3, 5))
    check(Fusion(spec), partial(txgraphs.fusion_pyramid.fusion, spec), x, random(B, E, 3, 5))
    check(doubled, txgraphs.doubled.doubled, x)


@pytest.mark.parametrize("scale", [0.5, 1.25])
@pytest.mark.parametrize("points", [1, 4])
def test_deformable_attention(points, scale):
    """Places outside of the maps are zeros, on both sides."""
    spec = replace(STACK.attention, points=points, scale=scale)
    function = partial(txgraphs.deformable_attention.deformable_attention, spec)
    check(DeformableAttention(spec), function, random(B, Q, W), boxes(B, Q), random(B, 30, W), SIZES)


def test_maps_as_places():
    x = random(B, W, 3, 5)
    check(flat_map, txgraphs.proposal_stack.flat_map, x)
    check(unflat_map, txgraphs.proposal_stack.unflat_map, random(B, 15, W), x)
    positions = txgraphs.proposal_stack.map_positions(W, STACK.temperature)
    check(partial(map_positions, STACK), positions, x)


@pytest.mark.parametrize("grid", [(1, 1), (3, 5), (60, 2)])
def test_first_boxes(grid):
    """Places less than a hundredth from an edge have no box."""
    logits, inside = check(
        first_boxes, txgraphs.proposal_stack.first_boxes, random(1, W, *grid), torch.tensor(0.1)
    )
    assert bool(inside.all()) == (grid[0] < 60)
    assert (logits[~inside[:, 0]] > 1e38).all()


def test_proposals():
    anchors, inside = first_boxes(random(1, W, 5, 6), torch.tensor(0.2))
    function = partial(txgraphs.proposal_stack.proposals, STACK)
    inside[3] = False
    check(Proposals(STACK), function, random(B, 30, W), anchors, inside)


def test_layers_of_queries_and_boxes():
    x, references = random(B, Q, W), boxes(B, Q)
    layer = STACK.object_block, STACK.objects, STACK.attention
    function = partial(txgraphs.proposal_stack.proposal_layer, *layer)
    check(ProposalLayer(*layer), function, x, random(B, Q, W), references, random(B, 30, W), SIZES)
    check(BoxPositions(W), txgraphs.proposal_stack.box_positions, references)
    change = partial(txgraphs.proposal_stack.box_change, STACK.box_layers)
    check(BoxChange(STACK), change, x, references)


def test_refined_boxes():
    """Shares of 0 and 1 have the logits of the least share and of the largest."""
    references = boxes(B, Q)
    references[0, 0], references[0, 1] = torch.tensor([0.0, 1.0, 1e-7, 1 - 1e-7]), 0.5
    check(refined, txgraphs.heads.boxes.refined, random(B, Q, 4), references)
    spec = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=5, boxes=BoxesSpec(Q, 1, 3, refined=True))
    head = partial(txgraphs.heads.boxes.refined_boxes_head, spec)
    check(RefinedBoxesHead(spec, W), head, random(B, Q, W), references)


def test_parameters_and_operations_are_those_that_pytorch_counts():
    """Sampling is no product of matrices: PyTorch does not count it."""
    module = seeded(ProposalEncoder(STACK)).requires_grad_(False)
    assert shapes(module) == parameters(STACK)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *NETWORK.image_size))
    work = input_of(STACK).operations(NETWORK) + sum(query_operations(STACK).values())
    sampled = 2 * 3 * Q * STACK.attention.levels * STACK.attention.points * W
    assert work - sampled == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(NETWORK, depths=(1,)), "expected as many of both"),
        (lambda: replace(NETWORK, sizes=(8, 12, 13)), "expected multiples of 4"),
        (lambda: replace(NETWORK, stem=6, bottleneck=False), "the same of both without bottleneck"),
        (lambda: replace(NETWORK, levels=4), "4 levels of 3 stages"),
        (lambda: replace(NETWORK, image_size=(32, 50)), "expected multiples of 16"),
        (lambda: replace(STACK.attention, num_heads=3), "expected a divisor of 16"),
        (lambda: replace(STACK, pyramid=replace(STACK.pyramid, size=4)), "the pyramid 4"),
        (lambda: replace(STACK, objects=QueryLayersSpec(1, 2, 5)), "attention has 4 heads"),
        (lambda: replace(STACK, cells=QueryLayersSpec(1, 3, 5)), "3 heads of cells"),
        (lambda: replace(STACK, attention=replace(STACK.attention, levels=3)), "attention to 3 levels"),
        (lambda: replace(STACK, queries=99), "99 queries of 30 places"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
