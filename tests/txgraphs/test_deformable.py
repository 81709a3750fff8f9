"""Queries that read points of an image's maps: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import numpy as np
import onnx_ir as ir
import pytest
import torch
import txgraphs.deformable_pyramid
import txgraphs.deformable_stack
import txgraphs.inputs.masked_maps
import txgraphs.proposal_stack
import txgraphs.query_stack
import txmodels.inputs.masked_maps
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.deformable_pyramid import DeformableLayer
from txmodels.deformable_stack import DeformableEncoder, LearnedQueries, ProposedQueries
from txmodels.grounded_stack import place_boxes, place_points
from txmodels.proposal_stack import ProposalLayer
from txmodels.query_stack import sine_positions

from txexport.errors import SpecError
from txexport.parts import input_of
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import (
    DeformableStackSpec,
    GroupNormSpec,
    MaskedMapsSpec,
    NormSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    ResNetMapsSpec,
)
from txexport.spec.enums import Activation

B, W, Q = 2, 16, 7
MAPS = ResNetMapsSpec((1, 2, 1), (8, 12, 16), stem=8, image_size=(33, 50))
STACK = DeformableStackSpec(
    MaskedMapsSpec(MAPS, 2),
    4,
    GroupNormSpec(W, 8, 1e-5),
    QueryBlockSpec(NormSpec(W, 1e-5), Activation.RELU),
    QueryLayersSpec(2, 2, 20),
    3,
    QueryLayersSpec(3, 4, 24),
    2,
    Q,
)
REFINED = replace(STACK, refined=True)
PROPOSED = replace(REFINED, proposed=True)
SIZES = {"0": torch.tensor([4, 6]), "1": torch.tensor([2, 3])}
REAL = torch.arange(30) % 7 > torch.tensor([[-1], [0]])  # (B, S)


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def shares(*shape):
    return torch.sigmoid(random(*shape))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_maps(levels):
    """Places are counted as the spec counts them, of any size."""
    spec = MaskedMapsSpec(MAPS, levels)
    module = txmodels.inputs.masked_maps.MaskedMapsEmbedding(spec)
    assert shapes(module) == input_of(STACK).parameters(spec)
    function = partial(txgraphs.inputs.masked_maps.masked_maps_embedding, spec)
    maps = check(module, function, random(B, 3, *MAPS.image_size))
    sizes = zip(spec.grids, spec.read, strict=True)
    assert [x.shape for x in maps] == [(B, *grid, size) for grid, size in sizes]


def test_positions_of_the_centres_of_places():
    real = torch.zeros(3, 4, 5, dtype=torch.bool)
    real[0], real[1, :3, :2] = True, True
    function = txgraphs.query_stack.sine_positions(W, ir.DataType.FLOAT, start=0.5)
    [positions] = check(partial(sine_positions, W, start=0.5), function, real)
    assert not np.allclose(positions[:1], sine_positions(W, real)[:1])


@pytest.mark.parametrize("masked", [False, True])
def test_layers(masked):
    """With values of padding as zeros, and without any."""
    masks = {"real": REAL} if masked else {}
    x, references = random(B, 30, W), shares(B, 30, 2, 2)
    attention = replace(STACK, levels=2).cell_attention
    layer = STACK.block, STACK.cells, attention
    function = partial(txgraphs.deformable_pyramid.deformable_layer, *layer)
    check(DeformableLayer(*layer), function, x, random(B, 30, W), references, SIZES, **masks)
    for boxes in (False, True):
        layer = STACK.block, STACK.objects, replace(STACK, levels=2).object_attention(boxes)
        function = partial(txgraphs.proposal_stack.proposal_layer, *layer)
        near, queries = shares(B, Q, 2, 4 if boxes else 2), random(B, Q, W)
        check(ProposalLayer(*layer), function, queries, random(B, Q, W), near, x, SIZES, **masks)


def test_first_queries():
    image, real = random(B, 20, W), torch.ones(B, 4, 5, dtype=torch.bool)
    function = partial(txgraphs.deformable_stack.learned_queries, STACK)
    _, _, references = check(LearnedQueries(STACK), function, image)
    assert (references[:, :, 2:] == 0.5).all()
    points, _ = place_points(real, image)
    anchors, inside = place_boxes(points, real.flatten(1), torch.tensor(0.1))
    inside[1, 3] = False
    function = partial(txgraphs.deformable_stack.proposed_queries, PROPOSED)
    check(ProposedQueries(PROPOSED), function, image, anchors, inside)


@pytest.mark.parametrize("stack", [STACK, REFINED, PROPOSED, replace(STACK, levels=2)])
def test_parameters_and_operations_are_those_that_pytorch_counts(stack):
    """Sampling is no product of matrices: PyTorch does not count it."""
    module = seeded(DeformableEncoder(stack)).requires_grad_(False)
    assert shapes(module) == parameters(stack)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *MAPS.image_size), torch.ones(1, 1, 1))
    work = input_of(stack).operations(stack.embedding) + sum(query_operations(stack).values())
    points = stack.cells.num_layers * stack.area * stack.cell_points
    points += stack.objects.num_layers * stack.queries * stack.object_points
    assert work - 2 * points * stack.levels * W == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(STACK, embedding=MaskedMapsSpec(MAPS, 4)), "4 levels of 3 stages"),
        (lambda: replace(STACK, levels=1), "2 maps for 1 levels"),
        (lambda: replace(STACK, map_norm=GroupNormSpec(8, 8, 1e-5)), "maps are 8 wide and places 16"),
        (lambda: replace(STACK, cells=QueryLayersSpec(1, 3, 5)), "3 heads of cells"),
        (lambda: replace(STACK, objects=QueryLayersSpec(1, 3, 5)), "3 heads of objects"),
        (lambda: replace(STACK, proposed=True), "proposed is True and refined False"),
        (lambda: replace(PROPOSED, queries=999), "999 queries of 52 places"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
