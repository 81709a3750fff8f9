"""Queries that predict a distribution for each edge of a box: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.aggregation_pyramid
import txgraphs.convolution_norm
import txgraphs.deformable_attention
import txgraphs.distribution_stack
import txgraphs.edges
import txgraphs.heads.boxes
import txgraphs.inputs.hgnet_levels
import txmodels.inputs.hgnet_levels
from helpers.twins import ABSENT, check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.aggregation_pyramid import Aggregation, AggregationPyramid, PairStage, SeparableHalving
from txmodels.convolution_norm import ConvolutionNorm, DepthwiseNorm
from txmodels.deformable_attention import DeformableAttention
from txmodels.distribution_stack import (
    DistributionEncoder,
    DistributionLayer,
    EdgeScores,
    GatedResidual,
    clipped,
)
from txmodels.edges import EdgeBoxes, edge_distances, edge_shares
from txmodels.heads.boxes import QualityBoxesHead

from txexport.errors import SpecError
from txexport.parts import input_of
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import (
    AggregationPyramidSpec,
    BoxesSpec,
    DeformableAttentionSpec,
    DistributionStackSpec,
    EdgesSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    HGNetLevelsSpec,
    HGNetStageSpec,
    NormSpec,
    QualitySpec,
    QueryBlockSpec,
    QueryLayersSpec,
)
from txexport.spec.enums import Activation

B, E, W, Q = 2, 8, 16, 7
STAGES = (
    HGNetStageSpec(6, 8, 1, 2, halved=False),
    HGNetStageSpec(4, 12, 2, 1),
    HGNetStageSpec(6, 16, 1, 2, 5, light=True),
)
NETWORK = HGNetLevelsSpec(E, STAGES, levels=2, stem=8, stem_size=10, affine=True, image_size=(32, 48))
EDGES = EdgesSpec(8)
STACK = DistributionStackSpec(
    NETWORK,
    QueryLayersSpec(1, 2, 20),
    QueryBlockSpec(NormSpec(E, 1e-5), Activation.GELU),
    AggregationPyramidSpec(E, 6, Activation.SILU, blocks=2),
    QueryLayersSpec(3, 4, 24),
    QueryBlockSpec(NormSpec(W, 1e-5), Activation.RELU),
    NormSpec(W, 1e-5),
    DeformableAttentionSpec(W, 4, 2, 3, counts=(3, 2), projected=False),
    EDGES,
    Q,
    5,
)
QUALITY = QualitySpec(EDGES, 3, 2, 6)
BOXES = BoxesSpec(Q, 1, 3, refined=True, quality=QUALITY)
HEAD = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=5, boxes=BOXES)
SIZES = {"0": torch.tensor([4, 6]), "1": torch.tensor([2, 3])}
OF_INPUT = txgraphs.inputs.hgnet_levels


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def boxes(*shape):
    return torch.sigmoid(random(*shape, 4))


@pytest.mark.parametrize("size", [(16, 16), (32, 48)])
@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("affine", [True, False])
def test_levels(affine, levels, size):
    """Places are counted as the spec counts them."""
    spec = replace(NETWORK, affine=affine, levels=levels, image_size=size)
    module = txmodels.inputs.hgnet_levels.HgnetLevelsEmbedding(spec)
    assert shapes(module) == input_of(STACK).parameters(spec)
    maps = check(module, partial(OF_INPUT.hgnet_levels_embedding, spec), random(B, 3, *size))
    assert [x.shape for x in maps] == [(B, E, *grid) for grid in spec.grids]


@pytest.mark.parametrize("affine", [True, False])
def test_parts_of_the_network(affine):
    x, models = random(B, 10, 5, 6), txmodels.inputs.hgnet_levels
    check(models.HgnetStem(NETWORK), partial(OF_INPUT.hgnet_stem, NETWORK), random(B, 3, 8, 12))
    for kernel, stride in ((1, 1), (2, 1), (3, 2)):
        sizes = affine, 10, 6, kernel, stride, 1e-3
        function = partial(OF_INPUT.relu_convolution, affine, 6, kernel, stride, 1e-3)
        check(models.ReluConvolution(*sizes), function, x)
        function = partial(txgraphs.convolution_norm.convolution_norm, 6, kernel, stride, 1e-3)
        check(ConvolutionNorm(10, 6, kernel, stride, 1e-3), function, x)
    light = partial(OF_INPUT.light_convolution, affine, 6, 5, 1e-3)
    check(models.LightConvolution(affine, 10, 6, 5, 1e-3), light, x)
    each = partial(txgraphs.convolution_norm.depthwise_norm, 10, 3, 2, 1e-3)
    check(DepthwiseNorm(10, 3, 2, 1e-3), each, x)
    for stage in STAGES:
        for residual in (True, False):
            module = models.AggregationBlock(stage, affine, stage.size, residual, 1e-3)
            function = partial(OF_INPUT.aggregation_block, stage, affine, residual, 1e-3)
            check(module, function, random(B, stage.size, 5, 6))


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("inner", [6, E])
def test_pyramid(inner, levels):
    spec = replace(STACK.pyramid, inner=inner)
    maps = {str(n): random(B, E, 8 >> n, 12 >> n) for n in range(levels)}
    function = partial(txgraphs.aggregation_pyramid.aggregation_pyramid, spec)
    check(AggregationPyramid(spec, levels), function, maps)


def test_parts_of_the_pyramid():
    spec, x, graphs = STACK.pyramid, random(B, E, 3, 5), txgraphs.aggregation_pyramid
    check(PairStage(spec, E), partial(graphs.pair_stage, spec), x)
    check(Aggregation(spec), partial(graphs.aggregation, spec), x, random(B, E, 3, 5))
    check(SeparableHalving(spec), partial(graphs.separable_halving, spec), random(B, E, 4, 6))


@pytest.mark.parametrize("projected", [True, False])
@pytest.mark.parametrize("counts", [(3, 2), (1, 3), ()])
def test_attention_to_points_of_each_level(counts, projected):
    spec = replace(STACK.attention, counts=counts, projected=projected, scale=0.75)
    function = partial(txgraphs.deformable_attention.deformable_attention, spec)
    check(DeformableAttention(spec), function, random(B, Q, W), boxes(B, Q), random(B, 30, W), SIZES)


@pytest.mark.parametrize("bins", [4, 8, 32])
def test_edges(bins):
    """Boxes do not depend on the signs of the learned numbers."""
    scale, reach = torch.tensor([-3.5]), torch.tensor([-0.6])
    function = txgraphs.edges.edge_distances(bins)
    distances = check(partial(edge_distances, bins), function, scale, reach)
    (values,) = distances if isinstance(distances, tuple | list) else (distances,)
    assert values.shape == (bins + 1,)
    assert values[bins // 2] == 0
    scores = random(B, Q, 4 * (bins + 1))
    check(partial(edge_shares, bins), txgraphs.edges.edge_shares(bins), scores)
    spec = EdgesSpec(bins)
    check(EdgeBoxes(spec), partial(txgraphs.edges.edge_boxes, spec), boxes(B, Q), scores)


def test_layers_of_queries():
    x, graphs = random(B, Q, W), txgraphs.distribution_stack
    check(
        GatedResidual(NormSpec(W, 1e-3)),
        partial(graphs.gated_residual, NormSpec(W, 1e-3)),
        x,
        random(B, Q, W),
    )
    arguments = x, random(B, Q, W), boxes(B, Q), random(B, 30, W), SIZES
    check(DistributionLayer(STACK), partial(graphs.distribution_layer, STACK), *arguments)
    check(partial(clipped, 0.5), graphs.clipped(0.5), x)


@pytest.mark.parametrize("first", [True, False])
def test_scores_of_edges(first):
    before = (ABSENT, ABSENT) if first else (random(B, Q, W), random(B, Q, 36))
    function = partial(txgraphs.distribution_stack.edge_scores, STACK)
    check(EdgeScores(STACK), function, random(B, Q, W), *before)


@pytest.mark.parametrize(("best", "layers"), [(1, 1), (3, 2), (9, 3)])
def test_quality(best, layers):
    spec = replace(HEAD, boxes=replace(BOXES, quality=QualitySpec(EDGES, best, layers, 6)))
    head = partial(txgraphs.heads.boxes.quality_boxes_head, spec)
    references = torch.cat([boxes(B, Q), random(B, Q, 36)], dim=2)
    check(QualityBoxesHead(spec, W), head, random(B, Q, W), references)


@pytest.mark.parametrize("width", [W, E])
def test_parameters_and_operations_are_those_that_pytorch_counts(width):
    """Sampling is no product of matrices: PyTorch does not count it."""
    block, attention = (
        QueryBlockSpec(NormSpec(width, 1e-5), Activation.RELU),
        replace(STACK.attention, hidden_size=width),
    )
    stack = replace(STACK, object_block=block, gate_norm=block.norm, attention=attention)
    module = seeded(DistributionEncoder(stack)).requires_grad_(False)
    assert shapes(module) == parameters(stack)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *NETWORK.image_size))
    work = input_of(stack).operations(NETWORK) + sum(query_operations(stack).values())
    sampled = 2 * 3 * Q * attention.sampled * width // attention.num_heads
    means = 2 * 3 * Q * 4 * (EDGES.bins + 1)  # products with a vector, which it does not count
    assert work - sampled - means == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(STAGES[0], size=7), "expected an even size"),
        (lambda: replace(STAGES[0], kernel=4), "odd kernel"),
        (lambda: replace(NETWORK, stem=7), "expected an even number"),
        (lambda: replace(NETWORK, levels=4), "4 levels of 3 stages"),
        (lambda: replace(NETWORK, stages=STAGES[::-1]), "a stage of a level is not halved"),
        (lambda: replace(NETWORK, image_size=(32, 50)), "expected multiples of 16"),
        (lambda: EdgesSpec(7), "expected an even number from 4"),
        (lambda: replace(QUALITY, best=10), "best 10 of 9"),
        (lambda: replace(BOXES, refined=False), "quality without refined"),
        (lambda: replace(STACK.attention, counts=(3,)), "a number from 1 for each level"),
        (lambda: replace(STACK.attention, counts=(2, 2)), "and the largest of them"),
        (lambda: replace(STACK.attention, boxes=False), "expected one box for all levels"),
        (lambda: replace(STACK, pyramid=replace(STACK.pyramid, size=4)), "the pyramid 4"),
        (lambda: replace(STACK, gate_norm=NormSpec(E, 1e-5)), "gates are 8 wide"),
        (
            lambda: replace(STACK, objects=QueryLayersSpec(1, 2, 5)),
            "attention has 4 heads, expected the layers' 2",
        ),
        (lambda: replace(STACK, cells=QueryLayersSpec(1, 3, 5)), "3 heads of cells"),
        (lambda: replace(STACK, queries=99), "99 queries of 30 places"),
        (
            lambda: EncoderSpec(STACK, replace(HEAD, boxes=BoxesSpec(Q, 1, 3, refined=True))),
            "one of EdgesSpec",
        ),
        (lambda: EncoderSpec(STACK, replace(HEAD, labels=6)), "expected the stack's 5"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
