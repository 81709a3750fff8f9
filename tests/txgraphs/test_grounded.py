"""A text and an image that read one another: both halves on the same numbers."""

from dataclasses import replace
from functools import partial

import onnx_ir as ir
import pytest
import torch
import txgraphs.deformable_attention
import txgraphs.grounded_layer as layers
import txgraphs.grounded_stack as stack
import txgraphs.phrases
from helpers.twins import check, random, seeded
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from transformers.models.grounding_dino import modeling_grounding_dino as library
from txmodels.architectures.grounded import GroundedModel
from txmodels.deformable_attention import DeformableAttention
from txmodels.grounded_layer import Fusion, GroundedLayer, ObjectLayer
from txmodels.grounded_stack import (
    BoxMove,
    FirstBoxes,
    LevelPositions,
    MapLevel,
    moved,
    place_boxes,
    place_points,
    token_scores,
)
from txmodels.phrases import number_sines, phrases

from txexport.errors import SpecError
from txexport.inspection import flops
from txexport.parts import grounded, parameters
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DeformableAttentionSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    GroundedSpec,
    GroupNormSpec,
    MergingSpec,
    NormPlacement,
    NormSpec,
    PatchGridSpec,
    PositionKind,
    PositionSpec,
    QueryLayersSpec,
    StagedStackSpec,
    StageSpec,
    TextStackSpec,
    WindowAttentionSpec,
)

B, E, W, S, Q, P = 2, 8, 16, 6, 5, 30
SIZES = {"0": torch.tensor([4, 6]), "1": torch.tensor([2, 3])}
SEPARATORS = (7, 9)


def block(attention, width, placement):
    return BlockSpec(attention, FeedForwardSpec(width, 20, Activation.GELU), NormSpec(width, 1e-5), placement)


def stage(width, merged):
    attention = WindowAttentionSpec(width, 2, width // 2, 2, always_shifted=True)
    merging = MergingSpec(width, 2 * width, NormSpec(4 * width, 1e-5)) if merged else None
    return StageSpec(
        (block(attention, width, NormPlacement.PRE),), 1, merging, map_norm=NormSpec(width, 1e-5)
    )


TEXT = TextStackSpec(
    EmbeddingSpec(31, 12, PositionSpec(PositionKind.LEARNED, 9), 2, NormSpec(12, 1e-5)),
    (block(AttentionSpec(12, 2, 2, 6, causal=False), 12, NormPlacement.POST),),
    2,
)
VISION = StagedStackSpec(
    PatchGridSpec(E, (32, 48), 4, NormSpec(E, 1e-5)), (stage(E, True), stage(2 * E, False))
)
SPEC = GroundedSpec(
    TEXT,
    VISION,
    4,
    GroupNormSpec(W, 4, 1e-5),
    NormSpec(W, 1e-5),
    Activation.RELU,
    QueryLayersSpec(2, 4, 24),
    3,
    QueryLayersSpec(3, 8, 20),
    2,
    Q,
    12,
    SEPARATORS,
    20.0,
)
OF_TWO = replace(SPEC, levels=2)  # the levels of SIZES


def results(*arguments):
    """The outputs of both halves as tensors."""
    return [torch.from_numpy(array) for array in check(*arguments)]


def tokens():
    return torch.arange(S) < torch.tensor([S, 3])[:, None]


def real(*shape):
    """A mask of the places of the image: fewer in the last row."""
    every = torch.ones(B, *shape, dtype=torch.bool)
    every[-1, -1] = False
    return every


def points(*shape):
    return torch.sigmoid(random(*shape, 2))


def boxes(*shape):
    return torch.sigmoid(random(*shape, 4))


IDS = torch.tensor(
    [
        [7, 3, 4, 9, 5, 7, 9, 0, 0],
        [7, 9, 3, 3, 3, 3, 3, 9, 3],
        [1, 2, 3, 4, 5, 6, 1, 2, 9],
        [7, 7, 7, 7, 7, 7, 7, 7, 7],
        [1, 2, 3, 4, 5, 6, 1, 2, 3],
        [3, 7, 0, 0, 9, 0, 0, 0, 0],
    ]
)


@pytest.mark.parametrize("length", [9, 1, 2])
def test_phrases_are_the_library_s(length):
    ids = IDS[:, :length]
    mask, positions = results(partial(phrases, SEPARATORS), txgraphs.phrases.phrases(SEPARATORS), ids)
    expected = library.generate_masks_with_special_tokens_and_transfer_map(ids, torch.tensor(SEPARATORS))
    assert torch.equal(mask[:, 0], expected[0])
    assert torch.equal(positions, expected[1])


@pytest.mark.parametrize("count", [1, 4])
def test_sines_of_numbers(count):
    x = random(B, S, count)
    [sines] = results(partial(number_sines, 8), txgraphs.phrases.number_sines(8), x)
    order = [0] if count == 1 else [1, 0, 2, 3]  # the library exchanges the first two
    expected = library.encode_sinusoidal_position_embedding(x[:, :, order], 8)
    assert (sines - expected).abs().max() < 1e-6


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("by_level", [True, False])
@pytest.mark.parametrize("of_boxes", [True, False])
def test_deformable_attention(of_boxes, by_level, masked):
    spec = DeformableAttentionSpec(W, 4, 2, 3, boxes=of_boxes, by_level=by_level)
    references = (boxes if of_boxes else points)(B, Q, *[2] * by_level)
    function = partial(txgraphs.deformable_attention.deformable_attention, spec)
    masks = {"real": real(P)} if masked else {}
    check(DeformableAttention(spec), function, random(B, Q, W), references, random(B, P, W), SIZES, **masks)


@pytest.mark.parametrize("halved", [True, False])
@pytest.mark.parametrize("grid", [(4, 6), (3, 5)])
def test_levels(grid, halved):
    function = partial(stack.map_level, SPEC.map_norm, halved)
    (y,) = check(MapLevel(E, SPEC.map_norm, halved), function, random(B, *grid, E))
    rows, columns = ((side + 1) // 2 for side in grid) if halved else grid
    assert y.shape == (B, rows, columns, W)


def test_places_and_first_boxes():
    """As the library's, with a row of padding; a place at 49.5 / 50 has no box, as it is not below 0.99."""
    seen = real(7, 50)
    point, share = results(place_points, stack.place_points, seen, torch.ones(1))
    assert torch.allclose(share[0, 0], torch.tensor([1.0, 1.0]))
    assert torch.allclose(share[1, 0], torch.tensor([1.0, 6 / 7]))
    logits, inside = results(place_boxes, stack.place_boxes, point, seen.flatten(1), torch.tensor(0.1))
    model = library.GroundingDinoModel.generate_encoder_output_proposals
    identity = torch.nn.Identity()
    fake = type("Fake", (), {"enc_output": identity, "enc_output_norm": identity})()
    vectors, theirs = model(fake, torch.ones(B, 350, 1), ~seen.flatten(1), [(7, 50)])
    assert torch.equal(vectors[:, :, 0] > 0, inside)
    assert (logits[inside][:, :2] - theirs[inside][:, :2]).abs().max() < 1e-5
    assert not inside.reshape(B, 7, 50)[0, :, [0, 49]].any()


def test_best_places():
    inside = real(P)
    inside[:, 3] = False
    anchors = torch.logit(boxes(B, P)).masked_fill(~inside[:, :, None], 3e38)
    function = partial(stack.first_boxes, SPEC)
    (first,) = check(FirstBoxes(SPEC), function, random(B, P, W), random(B, S, W), anchors, inside, tokens())
    assert first.shape == (B, Q, 4)


def test_positions_and_changes_of_boxes():
    check(LevelPositions(W), partial(stack.level_positions, W), boxes(B, Q, 2))
    check(BoxMove(W, 3), partial(stack.box_move, 3), random(B, Q, W), boxes(B, Q))
    references = boxes(B, Q)
    references[0, 0], references[0, 1] = torch.tensor([0.0, 1.0, 1e-7, 1 - 1e-7]), 0.5
    (result,) = results(moved, stack.moved, random(B, Q, 4), references)
    expected = torch.sigmoid(random(B, Q, 4) + torch.special.logit(references, eps=1e-5))
    assert (result - expected).abs().max() < 1e-6


def test_layers():
    image, text, mask = random(B, P, W), random(B, S, W), torch.eye(S, dtype=torch.bool).repeat(B, 1, 1, 1)
    check(Fusion(OF_TWO), partial(layers.fusion, OF_TWO), image, text, real(P), tokens())
    arguments = random(B, P, W), random(B, S, W), points(B, P, 2), SIZES, real(P), tokens(), mask
    check(GroundedLayer(OF_TWO), partial(layers.grounded_layer, OF_TWO), image, text, *arguments)
    x, positions, seen = random(B, Q, W), random(B, Q, W), tokens()[:, None, None].repeat(1, 1, Q, 1)
    arguments = boxes(B, Q, 2), image, text, SIZES, real(P), seen
    check(ObjectLayer(OF_TWO), partial(layers.object_layer, OF_TWO), x, positions, *arguments)


def test_scores_of_tokens():
    function = stack.token_scores(SPEC.text_length, ir.DataType.FLOAT)
    arguments = random(B, Q, W), random(B, S, W), tokens()
    logits = token_scores(SPEC.text_length, *arguments)
    finite = torch.isfinite(logits)
    assert finite.sum(2).tolist() == [[S] * Q, [3] * Q]
    check(
        lambda *values: token_scores(SPEC.text_length, *values).clamp(min=-9e9), clamped(function), *arguments
    )


def clamped(function):
    """The function with its infinities as large numbers, which can be subtracted."""

    def call(g, *values):
        op = g.graph.op
        return op.Max(g.call(function, *values), op.Constant(value_float=-9e9))

    return call


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("levels", [2, 3, 5])
def test_parameters_and_operations_are_those_that_pytorch_counts(levels, shared):
    """Sampling is no product of matrices: PyTorch does not count it."""
    spec = replace(SPEC, levels=levels, shared_boxes=shared)
    module = seeded(GroundedModel(spec, None)).requires_grad_(False)
    assert {name: tuple(value.shape) for name, value in module.named_parameters()} == parameters(spec)
    ids = torch.arange(spec.limit)[None] % 31
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        module.described(ids, torch.ones_like(ids), torch.zeros(1, 3, 32, 48), torch.ones(1, 1, 1), ids % 2)
    work = sum(one.total for one in flops.prefill(spec, spec.limit).values())
    cells = sum(rows * columns for rows, columns in spec.grids)
    sampled = 2 * cells * spec.cell_points + 3 * Q * spec.object_points
    assert sum(grounded.operations(spec).values()) > 0
    assert work - 2 * sampled * levels * W == counter.get_total_flops()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"text": VISION}, "reads PatchGridSpec and PatchGridSpec"),
        ({"map_norm": GroupNormSpec(8, 4, 1e-5)}, "maps are 8 wide and places 16"),
        ({"levels": 1}, "2 maps for 1 levels"),
        ({"cells": QueryLayersSpec(2, 6, 24)}, "6 heads, expected a divisor of 16"),
        ({"cells": QueryLayersSpec(2, 1, 24)}, "expected that half of the heads divides half"),
        ({"queries": 999}, "999 queries, expected no more than places"),
        ({"separators": (7, 31)}, "phrases end at .7, 31., expected ids below 31"),
        ({"text_length": 0}, "text_length is 0"),
    ],
)
def test_a_contradiction_says_why(change, message):
    with pytest.raises(SpecError, match=message):
        replace(SPEC, **change)
