"""Patches that texts describe: twins, the padding of texts, and the original's places of boxes."""

from functools import partial

import numpy as np
import pytest
import torch
import txgraphs.architectures.open_vocabulary as graphs
import txmodels.architectures.open_vocabulary as models
from helpers.twins import check, random
from transformers import OwlViTForObjectDetection

from txexport.errors import SpecError
from txexport.parts import parameters
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    NormPlacement,
    NormSpec,
    OpenVocabularySpec,
    PatchSpec,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
)

B, T, D, W = 2, 3, 10, 12
NORM = NormSpec(W, 1e-5)


def block(causal: bool) -> BlockSpec:
    attention = AttentionSpec(W, 2, 2, 6, causal=causal, unmasked=not causal)
    return BlockSpec(attention, FeedForwardSpec(W, 20, Activation.QUICK_GELU), NORM, NormPlacement.PRE)


TEXT = TextStackSpec(EmbeddingSpec(31, W, PositionSpec(PositionKind.LEARNED, 16)), (block(True),), 2, NORM)
VISION = SignalStackSpec(PatchSpec(W, (12, 20), 4), (block(False),), 2, final_norm=NORM)
SPEC = OpenVocabularySpec(TEXT, VISION, D, NORM)


def test_parameters_are_those_of_the_module():
    module = models.OpenVocabularyModel(SPEC, None)
    assert {name: tuple(value.shape) for name, value in module.named_parameters()} == parameters(SPEC)


def test_objects():
    module = models.DescribedObjects(SPEC)
    embeds, boxes = check(module, partial(graphs.described_objects, SPEC), random(B, 16, W))
    assert (embeds.shape, boxes.shape) == ((B, 3, 5, W), (B, 15, 4))


@pytest.mark.parametrize("shape", [(T, D), (B, T, D)], ids=["shared", "of each image"])
def test_descriptions(shape):
    module = models.Descriptions(SPEC)
    (logits,) = check(module, partial(graphs.descriptions, SPEC), random(*shape), random(B, 3, 5, W))
    assert logits.shape == (B, 15, T)


@pytest.mark.parametrize(("rows", "columns"), [(3, 5), (24, 24), (1, 1)])
def test_places_are_the_original_s(rows, columns):
    spec = OpenVocabularySpec(
        TEXT, SignalStackSpec(PatchSpec(W, (4 * rows, 4 * columns), 4), (block(False),), 1), D, NORM
    )
    original = OwlViTForObjectDetection.compute_box_bias(OwlViTForObjectDetection, rows, columns)
    # At an edge, 1 - 0.0001 is rounded to float32 there: 2e-4 of a logit of 9 is 2e-8 of the image.
    assert np.abs(np.array(spec.box_logits()) - original.numpy()).max() < 2e-4
    exact = OwlViTForObjectDetection.normalize_grid_corner_coordinates(rows, columns).double()
    exact = torch.log(exact + 1e-4) - torch.log1p(-exact + 1e-4)
    assert np.abs(np.array(spec.box_logits())[:, :2] - exact.numpy()).max() < 1e-5


WRONG = {
    "norm is 24 wide, patches 12": {"norm": NormSpec(24, 1e-5)},
    "size is 0": {"size": 0},
    "one class token before the patches": {
        "vision": SignalStackSpec(PatchSpec(W, (12, 20), 4, tokens=0), (block(False),), 2)
    },
    "reads EmbeddingSpec and EmbeddingSpec": {"vision": TEXT},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_spec_that_is_wrong_is_refused(message):
    values = {"text": TEXT, "vision": VISION, "size": D, "norm": NORM}
    with pytest.raises(SpecError, match=message):
        OpenVocabularySpec(**values | WRONG[message])
