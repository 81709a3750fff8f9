"""Images as maps of depthwise convolutions and networks: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.inputs.convnext
from helpers.twins import check, random
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.convnextv2.modeling_convnextv2 import ConvNextV2GRN
from txmodels.inputs.convnext import ConvnextEmbedding, ConvnextLayer, ConvnextMerging, ResponseNorm

from txexport.parts import input_of
from txexport.spec import Activation, ConvNextSpec, MapStackSpec

B = 2
SPEC = ConvNextSpec((1, 2, 1), (6, 9, 10), image_size=(33, 47))
KINDS = [SPEC, replace(SPEC, scaled=False, responses=True, activation=Activation.GELU_TANH, patch_size=3)]


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


@pytest.mark.parametrize("size", [(1, 1), (2, 9), (8, 7)])
@pytest.mark.parametrize("spec", KINDS)
def test_layer(spec, size):
    function = partial(txgraphs.inputs.convnext.convnext_layer, spec, 6)
    check(ConvnextLayer(spec, 6), function, random(B, *size, 6))


@pytest.mark.parametrize("size", [(2, 2), (3, 5), (8, 7)])
def test_merging_leaves_out_what_is_no_square(size):
    function = partial(txgraphs.inputs.convnext.convnext_merging, SPEC, 6)
    [merged] = check(ConvnextMerging(SPEC, 6, 9), function, random(B, *size, 6))
    assert merged.shape == (B, size[0] // 2, size[1] // 2, 9)


def test_response_norm():
    """Against the original: an image's channels, whatever else is in its batch."""
    module, theirs, x = ResponseNorm(7), ConvNextV2GRN(7), random(3, 4, 5, 7)
    torch.manual_seed(0)
    weight, bias = torch.randn(1, 1, 7), torch.randn(1, 1, 7)
    with torch.no_grad():
        for one in (module, theirs):
            one.weight.copy_(weight)
            one.bias.copy_(bias)
        assert torch.allclose(module(x), theirs(x), rtol=0, atol=1e-6)
        assert torch.allclose(module(x[:1]), module(x)[:1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("spec", KINDS)
def test_maps_of_all_stages(spec):
    """Parameters and operations are those that PyTorch counts."""
    module, stack = ConvnextEmbedding(spec), MapStackSpec(spec)
    assert shapes(module) == input_of(stack).parameters(spec)
    function = partial(txgraphs.inputs.convnext.convnext_embedding, spec)
    outputs = check(module, function, random(B, 3, *spec.image_size))
    pairs = zip(spec.grids, spec.sizes, strict=True)
    assert [one.shape[1:] for one in outputs] == [(*grid, size) for grid, size in pairs]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(torch.zeros(1, 3, *spec.image_size))
    assert input_of(stack).operations(spec) == counter.get_total_flops()
