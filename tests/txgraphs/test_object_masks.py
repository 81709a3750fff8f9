"""Masks of queries from attention to an image: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.heads.object_masks
import txgraphs.inputs.resnet
import txgraphs.inputs.resnet_maps
from helpers.twins import check, random
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.detr import modeling_detr as original
from txmodels.heads.object_masks import AttentionMaps, ObjectMasksHead, of_every_query, places_of_all_heads
from txmodels.inputs.resnet import ResnetEmbedding
from txmodels.inputs.resnet_maps import ResnetMapsEmbedding

from txexport.errors import SpecError
from txexport.parts import head_of, input_of
from txexport.parts.heads.object_masks import operations
from txexport.spec import HeadKind, HeadSpec, MapStackSpec, ObjectMasksSpec, ResNetMapsSpec, ResNetSpec
from txexport.spec.enums import Activation

B, W = 2, 32
MASKS = ObjectMasksSpec(5, W, 8, (6, 7, 9), Activation.RELU, 1e-3)
HEAD = HeadSpec(HeadKind.OBJECT_MASKS, tied=False, bias=True, labels=4, object_masks=MASKS)
GRIDS = [(2, 3), (1, 1), (3, 5)]


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


def maps(grid):
    """Maps of a network, the coarsest projected, before and after layers, and which places are real."""
    result = {}
    for number, size in enumerate(MASKS.sizes):
        factor = 2 ** (len(MASKS.sizes) - number)
        result[str(number)] = random(B, *(factor * side - number % 2 for side in grid), size)
    real = torch.ones(B, *grid, dtype=torch.bool)
    real[1, :, 1:] = False
    return result | {"grid": random(B, *grid, W), "image": random(B, grid[0] * grid[1], W), "real": real}


@pytest.mark.parametrize("grid", GRIDS)
def test_attention_maps(grid):
    image, real = (maps(grid)[name] for name in ("image", "real"))
    function = partial(txgraphs.heads.object_masks.attention_maps, MASKS)
    [weights] = check(AttentionMaps(MASKS), function, random(B, 5, W), image, real)
    assert weights.shape == (B, 5, 8, *grid)
    assert abs(weights.sum(axis=(2, 3, 4)) - 1).max() < 1e-5
    assert (weights[1, :, :, :, 1:] == 0).all()


def test_places_of_all_heads_and_every_query():
    real = torch.tensor([[[True, False, True]], [[False, True, True]]])
    function = txgraphs.heads.object_masks.places_of_all_heads
    check(places_of_all_heads, function, random(B, 5, 2, 3), real)
    function = txgraphs.heads.object_masks.of_every_query
    check(of_every_query, function, random(B * 3, 4, 5, 6), random(B, 4, 5, 6))


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("act", [Activation.RELU, Activation.SILU])
def test_object_masks_head(act, grid):
    spec = replace(HEAD, object_masks=replace(MASKS, activation=act))
    module = ObjectMasksHead(spec)
    assert shapes(module) == head_of(spec).parameters(spec, W, 0)
    function = partial(txgraphs.heads.object_masks.object_masks_head, spec)
    *_, masks = check(module, function, random(B, 5, W), maps(grid))
    assert masks.shape == (B, 5, *maps(grid)["0"].shape[1:3])


@pytest.mark.parametrize("grid", GRIDS)
def test_masks_of_the_original(grid):
    """The library's mask head with our weights, whose norms have its epsilon."""
    spec = replace(HEAD, object_masks=replace(MASKS, eps=1e-5))
    module = ObjectMasksHead(spec).eval()
    attention = original.DetrMHAttentionMap(W, MASKS.num_heads)
    theirs = original.DetrMaskHeadSmallConv(MASKS.joined, [*reversed(MASKS.sizes)], W)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.2 * random(*parameter.shape))
    attention.q_proj.load_state_dict(module.attention.q.state_dict())
    attention.k_proj.load_state_dict(module.attention.k.state_dict())
    theirs.conv1.conv.load_state_dict(module.join.state_dict())
    theirs.conv1.norm.load_state_dict(module.join_norm.state_dict())
    blocks = [(theirs.conv2, module.reduce)]
    for stage, side, convolution in zip(theirs.fpn_stages, module.sides, module.convolutions, strict=True):
        stage.fpn_adapter.load_state_dict(side.state_dict())
        blocks.append((stage.refine, convolution))
    for block, part in blocks:
        block.conv.load_state_dict(part.convolution.state_dict())
        block.norm.load_state_dict(part.norm.state_dict())
    theirs.output_conv.load_state_dict(module.project.state_dict())
    queries, values = random(B, 5, W), maps(grid)
    memory = values["image"].transpose(1, 2).unflatten(2, grid)
    hidden = torch.where(values["real"][:, None, None], 0.0, torch.finfo(torch.float32).min)
    finer = [values[str(number)].permute(0, 3, 1, 2) for number in (2, 1, 0)]
    with torch.no_grad():
        weights = attention(queries, memory, hidden)
        expected = theirs(values["grid"].permute(0, 3, 1, 2), weights, finer).unflatten(0, (B, 5))[:, :, 0]
        *_, masks = module(queries, values)
    assert (masks - expected).abs().max() < 1e-5


@pytest.mark.parametrize("size", [(8, 8), (33, 47)])
@pytest.mark.parametrize("bottleneck", [True, False])
def test_maps_of_a_network(bottleneck, size):
    """The last map, projected, and those of the other stages, as the spec counts their places."""
    spec = ResNetSpec(16, (1, 2, 1), (8, 12, 16), stem=4, bottleneck=bottleneck, image_size=size)
    module = ResnetEmbedding(spec)
    outputs = check(_Maps(module), partial(_named, spec), random(B, 3, *size))
    finer = zip(spec.grids[:-1], spec.sizes[:-1], strict=True)
    grids = [(*spec.grid, 16), *((*grid, size) for grid, size in finer)]
    assert [one.shape[1:] for one in outputs] == grids
    with torch.no_grad():
        assert abs(module(random(B, 3, *size)).numpy() - outputs[0]).max() < 1e-5


class _Maps(torch.nn.Module):
    """A network that returns its maps."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, pixel_values):
        return self.network.maps(pixel_values)


def _named(spec, place, pixel_values):
    return txgraphs.inputs.resnet.resnet_maps(spec, place / "network", pixel_values)


@pytest.mark.parametrize("size", [(8, 8), (33, 47)])
@pytest.mark.parametrize("bottleneck", [True, False])
def test_maps_of_all_stages(bottleneck, size):
    """Without a projection; parameters and operations are those that PyTorch counts."""
    spec = ResNetMapsSpec((1, 2, 1), (8, 12, 16), stem=4, bottleneck=bottleneck, image_size=size)
    module, stack = ResnetMapsEmbedding(spec), MapStackSpec(spec)
    assert shapes(module) == input_of(stack).parameters(spec)
    function = partial(txgraphs.inputs.resnet_maps.resnet_maps_embedding, spec)
    outputs = check(module, function, random(B, 3, *size))
    pairs = zip(spec.network.grids, spec.sizes, strict=True)
    assert [one.shape[1:] for one in outputs] == [(*grid, size) for grid, size in pairs]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(torch.zeros(1, 3, *size))
    assert input_of(stack).operations(spec) == counter.get_total_flops()


def test_operations_are_those_that_pytorch_counts():
    module = ObjectMasksHead(HEAD).requires_grad_(False)
    values = {name: value[:1] for name, value in maps((2, 3)).items()}
    with FlopCounterMode(display=False) as counter:
        module(random(1, 5, W), values)
    matrices = sum(value.numel() for value in module.parameters() if value.ndim == 2)
    grids = [tuple(values[name].shape[1:3]) for name in ("0", "1", "2", "real")]
    assert operations(MASKS, HEAD.labels, grids) + 2 * matrices == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(MASKS, num_heads=5), "5 heads of 32"),
        (lambda: replace(MASKS, sizes=()), "expected a divisor, and one map or more"),
        (lambda: replace(MASKS, hidden_size=24), "expected a multiple of 16"),
        (lambda: replace(MASKS, num_heads=4), "36 channels in 8 groups"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()
