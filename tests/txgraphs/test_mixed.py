"""Learned queries over maps of windows: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.grounded_stack
import txgraphs.heads.instance_masks
import txgraphs.inputs.windowed_maps
import txgraphs.mixed_stack
import txgraphs.projector
import txmodels.inputs.windowed_maps
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from txmodels.heads.boxes import scaled
from txmodels.heads.instance_masks import InstanceMasksHead
from txmodels.mixed_stack import LearnedChanges, LikeliestBoxes, MixedEncoder, place_sides
from txmodels.projector import MapResize, NormedConvolution, ProjectorLevel

from txexport.errors import SpecError
from txexport.parts import head_of, input_of
from txexport.parts.heads.instance_masks import operations
from txexport.parts.stacks import parameters, query_operations
from txexport.spec import (
    AttentionSpec,
    BatchNormSpec,
    BlockSpec,
    BoxesSpec,
    DeformableAttentionSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    InstanceMasksSpec,
    MixedStackSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    ProjectorSpec,
    QueryBlockSpec,
    QueryLayersSpec,
    WindowedMapsSpec,
)
from txexport.spec.enums import Activation

B, W, Q = 2, 16, 7
NORM = NormSpec(8, 1e-6)
BLOCK = BlockSpec(
    AttentionSpec(8, 2, 2, 4, causal=False, unmasked=True),
    FeedForwardSpec(8, 12, Activation.GELU),
    NORM,
    NormPlacement.PRE,
    layer_scale=True,
)
BATCHED = ProjectorSpec(W, 6, 2, Activation.SILU, NormSpec(W, 1e-6), (2.0, 0.5, 1.0))
OF_CHANNELS = replace(BATCHED, scales=(1.0,), layer_norm_eps=1e-5)
PLAIN = WindowedMapsSpec(
    PatchSpec(8, (20, 20), 4, tokens=0, any_size=True), BLOCK, 2, (1,), (1, 3), BATCHED, (16, 24)
)
COPIED = replace(
    PLAIN,
    patches=PatchSpec(8, (20, 20), 4, any_size=True, antialias=True),
    projector=OF_CHANNELS,
    norm=NORM,
    turned=True,
)
ONE_WINDOW = replace(COPIED, side=1, everywhere=(), read=(0, 2))
SPECS = {"plain": PLAIN, "copied": COPIED, "one window": ONE_WINDOW}
STACK = MixedStackSpec(
    PLAIN,
    QueryLayersSpec(2, 2, 20),
    QueryBlockSpec(NormSpec(W, 1e-5), Activation.RELU),
    DeformableAttentionSpec(W, 4, 3, 3, by_level=True),
    Q,
    5,
)
OTHER = replace(STACK, embedding=COPIED, attention=replace(STACK.attention, levels=1))


def shapes(module):
    return {name: tuple(value.shape) for name, value in module.named_parameters()}


@pytest.mark.parametrize("turned", [False, True])
def test_windows(turned):
    """Windows are joined as they were cut; but those of an image that is no square may be turned."""
    x, grid = random(B, 4, 6, 3), torch.tensor([4, 6])
    module = partial(txmodels.inputs.windowed_maps.cut, side=2, turned=turned)
    function = txgraphs.inputs.windowed_maps.cut(2, turned)
    [windows] = check(lambda cells, grid: module(cells.unflatten(1, (4, 6))), function, x.flatten(1, 2), grid)
    [back] = check(
        lambda windows, grid: txmodels.inputs.windowed_maps.joined(windows, 2, 4, 6),
        txgraphs.inputs.windowed_maps.joined(2),
        torch.from_numpy(windows),
        grid,
    )
    assert windows.shape == (4 * B, 6, 3)
    assert np.array_equal(back, x.permute(0, 3, 1, 2)) != turned


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_maps(spec):
    """Levels of any size whose patches fill windows; pixels beyond the last patch are not read."""
    module = txmodels.inputs.windowed_maps.WindowedMapsEmbedding(spec)
    stack = STACK if spec is PLAIN else OTHER
    assert shapes(module) == input_of(stack).parameters(spec)
    function = partial(txgraphs.inputs.windowed_maps.windowed_maps_embedding, spec)
    levels = check(module, function, random(B, 3, *spec.image_size))
    assert [level.shape for level in levels] == [(B, *grid, W) for grid in spec.grids]
    check(module, function, random(1, 3, 35, 17))


@pytest.mark.parametrize("size", [8, 516])
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_resized_maps(size, scale):
    """Wide maps are narrowed before they are doubled."""
    function = partial(txgraphs.projector.map_resize, BATCHED, size, scale)
    [y] = check(MapResize(BATCHED, size, scale), function, random(B, size, 3, 5) / 8)
    assert (
        y.shape[1:]
        == {
            0.5: (size, 2, 3),
            1.0: (size, 3, 5),
            2.0: (size // 2 if size == 8 else size // 4, 6, 10),
        }[scale]
    )


@pytest.mark.parametrize("spec", [BATCHED, OF_CHANNELS])
def test_levels(spec):
    maps = {"0": random(B, 8, 3, 4), "1": random(B, 8, 3, 5)[..., :4]}
    for scale in spec.scales:
        function = partial(txgraphs.projector.projector_level, spec, 8, scale)
        check(ProjectorLevel(spec, 2, 8, scale), function, maps)
    for norm in (NormSpec(6, 1e-3), BatchNormSpec(6, 1e-3)):
        parts = norm, 3, 2, Activation.RELU
        function = partial(txgraphs.projector.normed_convolution, *parts)
        check(NormedConvolution(norm, 8, 3, 2, Activation.RELU), function, maps["0"])


def test_first_boxes():
    """Places that are none have a box of zeros, and are chosen last."""
    points, real = torch.sigmoid(random(B, 20, 2)), torch.arange(20) > torch.tensor([[-1], [16]])
    points[0, 3] = 0.001
    boxes, inside = check(place_sides, txgraphs.mixed_stack.place_sides, points, real, torch.tensor(0.05))
    assert not inside[0, 3]
    assert inside[1].sum() < Q < inside[0].sum()
    assert (boxes[~inside] == 0).all()
    function = partial(txgraphs.mixed_stack.likeliest_boxes, STACK)
    anchors = torch.from_numpy(boxes), torch.from_numpy(inside)
    [likeliest] = check(LikeliestBoxes(STACK), function, random(B, 20, W), *anchors)
    assert (likeliest[1, inside[1].sum() :] == 0).all()
    check(LearnedChanges(STACK), txgraphs.mixed_stack.learned_changes, torch.from_numpy(likeliest))


def test_changes_of_boxes():
    """By their own sides: none changes the centre of a box without any."""
    change, boxes = random(B, Q, 4), torch.sigmoid(random(B, Q, 4))
    [changed] = check(scaled, txgraphs.heads.boxes.scaled, change, boxes)
    np.testing.assert_allclose(changed[0, 0, 2], boxes[0, 0, 2] * change[0, 0, 2].exp(), rtol=1e-6)


@pytest.mark.parametrize("stack", [STACK, OTHER])
def test_parameters_and_operations_are_those_that_pytorch_counts(stack):
    """Sampling is no product of matrices: PyTorch does not count it; interpolated positions are none."""
    module = seeded(MixedEncoder(stack)).requires_grad_(False)
    assert shapes(module) == parameters(stack)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module(torch.zeros(1, 3, *stack.embedding.image_size), torch.ones(1, 1, 1))
    work = input_of(stack).operations(stack.embedding) + sum(query_operations(stack).values())
    points = stack.objects.num_layers * stack.queries * stack.attention.points
    assert work - 2 * points * stack.embedding.levels * W == counter.get_total_flops()


def encoder(**boxes):
    head = HeadSpec(HeadKind.BOXES, tied=False, bias=True, labels=5, boxes=BoxesSpec(Q, 1, 3, **boxes))
    return EncoderSpec(encoder=STACK, head=head)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(BATCHED, scales=(3.0,)), r"scales are \(3.0,\)"),
        (lambda: replace(BATCHED, norm=NORM), "norm is 8 wide, maps 16"),
        (lambda: replace(PLAIN, read=(3, 1)), r"read is \(3, 1\)"),
        (lambda: replace(PLAIN, everywhere=(3,)), r"everywhere is \(3,\) of 3 layers"),
        (lambda: replace(PLAIN, image_size=(16, 20)), r"\(4, 5\) patches, expected multiples of 2"),
        (lambda: replace(PLAIN, patches=replace(PLAIN.patches, registers=1)), "expected those of any size"),
        (lambda: replace(PLAIN, patches=replace(PLAIN.patches, hidden_size=12)), "8 wide and patches 12"),
        (
            lambda: replace(PLAIN, block=replace(BLOCK, attention=replace(BLOCK.attention, unmasked=False))),
            "expected one that is unmasked",
        ),
        (lambda: replace(STACK, embedding=COPIED), "attention to 3 levels, 16 wide, and 1 maps"),
        (
            lambda: replace(STACK, attention=replace(STACK.attention, by_level=False)),
            "expected boxes of each level",
        ),
        (lambda: replace(STACK, objects=QueryLayersSpec(1, 3, 5)), "16 wide with 3 heads"),
        (lambda: replace(STACK, queries=999), "999 queries of 126 places"),
        (lambda: BoxesSpec(Q, 1, 3, scaled=True), "scaled is True, expected refined=True"),
        (lambda: encoder(refined=True), "boxes with scaled=False over MixedStackSpec"),
    ],
)
def test_a_contradiction_says_why(make, message):
    with pytest.raises(SpecError, match=message):
        make()


MASKS = InstanceMasksSpec(BoxesSpec(Q, 1, 3, refined=True, scaled=True), W, 2, 20, Activation.GELU, 3)
HEAD = HeadSpec(HeadKind.INSTANCE_MASKS, tied=False, bias=True, labels=5, instance_masks=MASKS)


@pytest.mark.parametrize("changed", [{}, {"boxes": BoxesSpec(Q, 1, 3, refined=True), "ratio": 2}])
def test_masks(changed):
    """A place for as many pixels as the ratio says, rounded down."""
    spec = replace(HEAD, instance_masks=replace(MASKS, **changed))
    module = InstanceMasksHead(spec)
    assert shapes(module) == head_of(spec).parameters(spec, W, 0)
    maps = {
        "boxes": torch.sigmoid(random(B, Q, 4)),
        "level": random(B, 3, 4, W),
        "pixel_values": random(B, 3, 13, 17),
    }
    function = partial(txgraphs.heads.instance_masks.instance_masks_head, spec)
    logits, boxes, masks = check(module, function, random(B, Q, W) / 2, maps)
    assert logits.shape == (B, Q, 5)
    assert boxes.shape == (B, Q, 4)
    ratio = spec.instance_masks.ratio
    assert masks.shape == (B, Q, 13 // ratio, 17 // ratio)


def test_operations_of_masks_are_those_that_pytorch_counts():
    """Less those of matrices with one vector, which are counted with the parameters."""
    module, image = seeded(InstanceMasksHead(HEAD)).requires_grad_(False), torch.zeros(1, 3, 24, 32)
    maps = {"boxes": torch.zeros(1, Q, 4), "level": torch.zeros(1, 3, 4, W), "pixel_values": image}
    with FlopCounterMode(display=False) as counter:
        module(torch.zeros(1, Q, W), maps)
    matrices = sum(value.numel() for value in module.parameters() if value.ndim == 2)
    assert operations(MASKS, 5, (24, 32)) + 2 * matrices == counter.get_total_flops()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: replace(MASKS, boxes=BoxesSpec(Q, 1, 3)), "expected boxes with refined=True"),
        (lambda: EncoderSpec(encoder=STACK, head=HEAD), "over 3 maps; expected those of the encoder"),
        (
            lambda: EncoderSpec(
                encoder=OTHER, head=replace(HEAD, instance_masks=replace(MASKS, hidden_size=20))
            ),
            r"masks of 7 queries of 20 numbers over 1 maps; .* \(7, 16\)",
        ),
    ],
)
def test_masks_of_other_queries(make, message):
    with pytest.raises(SpecError, match=message):
        make()
