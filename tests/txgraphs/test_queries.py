"""Residual networks, positions of places, and layers of queries: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import onnx_ir as ir
import pytest
import torch
import txgraphs.inputs.resnet
import txgraphs.query_stack
import txmodels.inputs.resnet
from helpers.twins import check, random
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.query_stack import QueryEncoder, QueryLayer, resized_mask, sine_positions

from txexport.errors import SpecError
from txexport.parts import input_of
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import NormSpec, QueryLayersSpec, QueryStackSpec, ResNetSpec
from txexport.spec.enums import Activation

B, W = 2, 16
NETWORK = ResNetSpec(W, (1, 2), (8, 12), stem=4, image_size=(32, 48))
LAYERS = QueryLayersSpec(2, 2, 20)
STACK = QueryStackSpec(NETWORK, LAYERS, QueryLayersSpec(3, 4, 24), Activation.RELU, NormSpec(W, 1e-5), 7)


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


@pytest.mark.parametrize("size", [(8, 8), (33, 47), (64, 21)])
@pytest.mark.parametrize("bottleneck", [True, False])
def test_resnet(bottleneck, size):
    """Places are counted as the spec counts them, of any size."""
    spec = replace(NETWORK, bottleneck=bottleneck, image_size=size)
    module = txmodels.inputs.resnet.ResnetEmbedding(spec)
    assert shapes(module) == input_of(replace(STACK, embedding=spec)).parameters(spec)
    [x] = check(module, partial(txgraphs.inputs.resnet.resnet_embedding, spec), random(B, 3, *size))
    assert x.shape == (B, *spec.grid, W)


@pytest.mark.parametrize("mask", [(1, 1), (5, 7), (40, 24), (64, 64)])
@pytest.mark.parametrize("grid", [(1, 1), (5, 3), (4, 7)])
def test_masks_of_any_size(grid, mask):
    real = (torch.arange(mask[0])[:, None] < max(1, mask[0] - 2)).expand(mask).long()
    every = torch.stack([real, torch.ones_like(real)])
    check(resized_mask, txgraphs.query_stack.resized_mask, every, random(B, *grid, W))


@pytest.mark.parametrize("size", [4, 16])
def test_positions_of_places(size):
    """Of the whole map, of a part of it, and of none."""
    real = torch.zeros(3, 4, 5, dtype=torch.bool)
    real[0], real[1, :3, :2] = True, True
    function = txgraphs.query_stack.sine_positions
    [positions] = check(partial(sine_positions, size), function(size, ir.DataType.FLOAT), real)
    assert positions.shape == (3, 20, size)


@pytest.mark.parametrize("pre_norm", [True, False])
@pytest.mark.parametrize("crossed", [True, False])
def test_query_layer(crossed, pre_norm):
    spec = replace(STACK.block, pre_norm=pre_norm)
    module = QueryLayer(spec, LAYERS, crossed)
    function = partial(txgraphs.query_stack.query_layer, spec, LAYERS)
    seen = torch.arange(6) < torch.tensor([6, 4])[:, None]
    if not crossed:
        mask = seen[:, None, None].expand(-1, 1, 6, -1)
        check(module, function, random(B, 6, W), random(B, 6, W), mask)
        return
    mask = seen[:, None, None].expand(-1, 1, 3, -1)
    check(module, function, random(B, 3, W), random(B, 3, W), mask, random(B, 6, W), random(B, 6, W))


@pytest.mark.parametrize("pre_norm", [True, False])
def test_parameters_and_operations_are_those_that_pytorch_counts(pre_norm):
    spec = replace(STACK, pre_norm=pre_norm)
    module = QueryEncoder(spec).requires_grad_(False)
    assert shapes(module) == parameters(spec)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *NETWORK.image_size), torch.ones(1, 1, 1))
    work = input_of(spec).operations(NETWORK) + sum(query_operations(spec).values())
    assert work == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(NETWORK, depths=(1,)), "expected as many of both"),
        (lambda: replace(NETWORK, sizes=(8, 13)), "expected multiples of 4"),
        (lambda: replace(STACK, norm=NormSpec(3, 1e-5)), "norm is 3 wide"),
        (lambda: replace(STACK, cells=QueryLayersSpec(1, 3, 5)), "3 heads of cells"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
