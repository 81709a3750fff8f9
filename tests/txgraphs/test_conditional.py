"""Learned queries that read an image near points: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.conditional_stack
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.conditional_stack import (
    ConditionalAttention,
    ConditionalEncoder,
    ConditionalLayer,
    MutualAttention,
    PointSines,
    ScaledSines,
)

from txexport.errors import SpecError
from txexport.parts import input_of
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import ConditionalStackSpec, NormSpec, QueryBlockSpec, QueryLayersSpec, ResNetSpec
from txexport.spec.enums import Activation

B, W, Q, S = 2, 16, 7, 6
NETWORK = ResNetSpec(W, (1, 2), (8, 12), stem=4, image_size=(33, 48))
BLOCK = QueryBlockSpec(NormSpec(W, 1e-5), Activation.RELU)
STACK = ConditionalStackSpec(NETWORK, QueryLayersSpec(2, 2, 20), QueryLayersSpec(3, 4, 24), BLOCK, Q)


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def test_attention_to_one_another():
    function = partial(txgraphs.conditional_stack.mutual_attention, W, 4)
    check(MutualAttention(W, 4), function, random(B, Q, W), random(B, Q, W))


@pytest.mark.parametrize("first", [True, False])
def test_attention_to_a_map(first):
    """Alone and within a layer; places of padding are not seen."""
    mask = (torch.arange(S) < torch.tensor([S, 4])[:, None])[:, None, None].expand(-1, 1, Q, -1)
    x, positions, sines = (random(B, Q, W) for _ in range(3))
    image, placed = random(B, S, W), random(B, S, W)
    function = partial(txgraphs.conditional_stack.conditional_attention, W, 4, first)
    module = ConditionalAttention(W, 4, first)
    check(module, function, x, positions, sines, image, placed, mask)
    layer = BLOCK, STACK.objects, first
    function = partial(txgraphs.conditional_stack.conditional_layer, *layer)
    check(ConditionalLayer(*layer), function, x, positions, sines, image, placed, mask)


def test_points():
    function = partial(txgraphs.conditional_stack.point_sines, W)
    _, references = check(PointSines(W), function, random(B, Q, W))
    assert (references[:, :, 2:] == 0.5).all()
    check(ScaledSines(W), txgraphs.conditional_stack.scaled_sines, random(B, Q, W), random(B, Q, W))


def test_parameters_and_operations_are_those_that_pytorch_counts():
    module = seeded(ConditionalEncoder(STACK)).requires_grad_(False)
    assert shapes(module) == parameters(STACK)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *NETWORK.image_size), torch.ones(1, 1, 1))
    work = input_of(STACK).operations(NETWORK) + sum(query_operations(STACK).values())
    assert work == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(STACK, block=replace(BLOCK, norm=NormSpec(8, 1e-5))), "norm is 8 wide"),
        (lambda: replace(STACK, block=replace(BLOCK, pre_norm=True)), "pre_norm is True"),
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
