"""Learned boxes that read an image: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.anchor_stack
import txgraphs.conditional_stack
import txgraphs.feedforward
import txgraphs.prelu
import txgraphs.query_stack
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.anchor_stack import (
    AnchorEncoder,
    AnchorQueries,
    BoxSines,
    ModulatedSines,
)
from txmodels.conditional_stack import ConditionalLayer
from txmodels.feedforward import FeedForward
from txmodels.prelu import Prelu
from txmodels.query_stack import QueryLayer

from txexport.errors import SpecError
from txexport.parts import input_of
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import (
    Activation,
    AnchorStackSpec,
    FeedForwardSpec,
    NormSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    ResNetSpec,
)

B, W, Q, S = 2, 16, 7, 6
NETWORK = ResNetSpec(W, (1, 2), (8, 12), stem=4, image_size=(33, 48))
BLOCK = QueryBlockSpec(NormSpec(W, 1e-5), Activation.PRELU)
STACK = AnchorStackSpec(NETWORK, QueryLayersSpec(2, 2, 20), QueryLayersSpec(3, 4, 24), BLOCK, Q)


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def boxes(*shape):
    return torch.sigmoid(random(*shape, 4))


def seen(count):
    """A mask (B,1,count,S) in which two places of the second row are padding."""
    return (torch.arange(S) < torch.tensor([S, 4])[:, None])[:, None, None].expand(-1, 1, count, -1)


def test_network():
    x = random(B, Q, W)
    check(Prelu(), txgraphs.prelu.prelu, x)
    spec = FeedForwardSpec(W, 20, Activation.PRELU)
    check(FeedForward(spec), partial(txgraphs.feedforward.feed_forward, spec), x)


def test_layers_of_places():
    x, positions = random(B, S, W), random(B, S, W)
    function = partial(txgraphs.query_stack.query_layer, BLOCK, STACK.cells)
    check(QueryLayer(BLOCK, STACK.cells, False), function, x, positions, seen(S))


@pytest.mark.parametrize("placed", [True, False])
def test_layers_of_queries(placed):
    """Places of padding are not seen."""
    x, positions, sines = (random(B, Q, W) for _ in range(3))
    arguments = x, positions, sines, random(B, S, W), random(B, S, W), seen(Q)
    layer = BLOCK, STACK.objects, placed
    function = partial(txgraphs.conditional_stack.conditional_layer, *layer)
    check(ConditionalLayer(*layer), function, *arguments)


def test_sines():
    references = boxes(B, Q)
    check(BoxSines(W), partial(txgraphs.anchor_stack.box_sines, W), references)
    function = partial(txgraphs.anchor_stack.modulated_sines, W)
    check(ModulatedSines(W), function, random(B, Q, W), random(B, Q, W), references)


@pytest.mark.parametrize("patterns", [0, 1, 3])
def test_queries(patterns):
    """Each pattern has all boxes, one after another."""
    spec = replace(STACK, patterns=patterns)
    function = partial(txgraphs.anchor_stack.anchor_queries, spec)
    queries, references = check(AnchorQueries(spec), function, random(B, S, W))
    assert queries.shape == (B, spec.queries, W)
    assert references.shape == (B, spec.queries, 4)


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("patterns", [0, 2])
def test_parameters_and_operations_are_those_that_pytorch_counts(patterns, placed):
    stack = replace(STACK, patterns=patterns, placed=placed, cells_norm=placed)
    module = seeded(AnchorEncoder(stack)).requires_grad_(False)
    assert shapes(module) == parameters(stack)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *NETWORK.image_size), torch.ones(1, 1, 1))
    work = input_of(stack).operations(NETWORK) + sum(query_operations(stack).values())
    assert work == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(STACK, block=replace(BLOCK, norm=NormSpec(8, 1e-5))), "norm is 8 wide"),
        (lambda: replace(STACK, block=replace(BLOCK, pre_norm=True)), "pre_norm is True"),
        (lambda: replace(STACK, patterns=-1), "-1 patterns"),
        (lambda: replace(STACK, cells=QueryLayersSpec(1, 3, 5)), "3 heads of cells"),
        (lambda: replace(STACK, objects=QueryLayersSpec(1, 3, 5)), "3 heads of objects"),
        (
            lambda: replace(
                STACK,
                embedding=replace(NETWORK, hidden_size=18),
                block=replace(BLOCK, norm=NormSpec(18, 1e-5)),
                objects=QueryLayersSpec(1, 2, 5),
            ),
            "expected a multiple of 4",
        ),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
