"""The parts of images that texts describe: twins, pairs of texts and images, and specs that are refused."""

import json
from dataclasses import replace
from functools import partial

import pytest
import torch
import txgraphs.architectures.described_segments as graphs
import txmodels.architectures.described_segments as models
from helpers.twins import check, random

from txexport.errors import SpecError
from txexport.parts import parameters
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DescribedSegmentsSpec,
    EmbeddingSpec,
    FeedForwardSpec,
    ModelSpec,
    NormPlacement,
    NormSpec,
    PatchSpec,
    Pick,
    PositionKind,
    PositionSpec,
    SignalStackSpec,
    TextStackSpec,
)
from txexport.spec.serialization import from_dict, to_dict

B, T, D, V, W = 2, 3, 10, 12, 8
NORM = NormSpec(V, 1e-5)


def block(width: int, placement: NormPlacement, causal: bool = False) -> BlockSpec:
    attention = AttentionSpec(width, 2, 2, width // 2, causal=causal, unmasked=not causal)
    network = FeedForwardSpec(width, 20, Activation.RELU)
    return BlockSpec(attention, network, NormSpec(width, 1e-5), placement)


TEXT = TextStackSpec(
    EmbeddingSpec(31, V, PositionSpec(PositionKind.LEARNED, 16)),
    (block(V, NormPlacement.PRE, causal=True),),
    2,
    NORM,
)
PATCHES = PatchSpec(V, (24, 24), 8, any_size=True)
VISION = SignalStackSpec(PATCHES, (block(V, NormPlacement.PRE),), 3)
SPEC = DescribedSegmentsSpec(
    TEXT, VISION, D, Pick.FIRST_EOS, 30, (0, 2, 1), block(W, NormPlacement.POST), conditioned=1
)
REFINED = replace(SPEC, refined=True, conditioned=0)


@pytest.mark.parametrize("spec", [SPEC, REFINED], ids=["plain", "refined"])
def test_a_spec_survives_json_and_has_the_module_s_parameters(spec):
    assert from_dict(ModelSpec, json.loads(json.dumps(to_dict(spec)))) == spec
    module = models.DescribedSegmentsModel(spec, None)
    assert {name: tuple(value.shape) for name, value in module.named_parameters()} == parameters(spec)


def test_narrow_states():
    states = {str(number): random(B, 5, V) + number for number in range(3)}
    (image,) = check(models.NarrowStates(SPEC), partial(graphs.narrow_states, SPEC), states)
    assert image.shape == (B, 3, 5, W)


def test_film():
    check(models.Film(SPEC), partial(graphs.film, SPEC), random(B, 5, W), random(B, D))


@pytest.mark.parametrize("rows", [1, 2, 5])
@pytest.mark.parametrize(("spec", "side"), [(SPEC, 8), (REFINED, 4)], ids=["plain", "refined"])
def test_pixels(spec, side, rows):
    """A transposed convolution makes 8 by 8 pixels of a patch, two of them 2 by 2 of 2 by 2."""
    function = partial(graphs.described_pixels, spec)
    (logits,) = check(models.DescribedPixels(spec), function, random(B, 1 + rows * rows, W))
    assert logits.shape == (B, side * rows, side * rows)


@pytest.mark.parametrize("conditioned", [0, 1, 2])
@pytest.mark.parametrize("spec", [SPEC, REFINED], ids=["plain", "refined"])
def test_decoder(spec, conditioned):
    spec = replace(spec, conditioned=conditioned)
    function = partial(graphs.segment_decoder, spec)
    check(models.SegmentDecoder(spec), function, random(B, 3, 10, W), random(B, D))


@pytest.mark.parametrize(("images", "texts"), [(1, 1), (2, 3), (3, 2)])
def test_pairs(images, texts):
    """Each text with each image; the logits of a pair are those of both alone."""
    image, text = random(images, 3, 5, W), random(texts, D)

    def pairs(image_embeds, text_embeds):
        return image_embeds.repeat_interleave(texts, 0), text_embeds.repeat(images, 1)

    check(pairs, graphs.each_pair, image, text)
    logits = random(images * texts, 4, 4)
    check(lambda logits, *_: logits.unflatten(0, (images, texts)), graphs.by_image, logits, image, text)
    module = models.DescribedSegmentsModel(SPEC, None).eval()
    with torch.no_grad():
        every = module.scores(text, image)["logits"]
        last = module.scores(text[-1:], image[-1:])["logits"]
    assert torch.allclose(every[-1:, -1:], last, atol=1e-6)


WRONG = {
    "size is 0": {"size": 0},
    "not 'last' 30": {"pick": Pick.LAST},
    "not 'argmax_id' 30": {"pick": Pick.ARGMAX_ID},
    r"layers \(0, 1\) of 3; expected some from 0, and the last": {"layers": (0, 1)},
    r"layers \(-1, 2\) of 3": {"layers": (-1, 2)},
    r"layers \(\) of 3": {"layers": ()},
    "conditioned is 3, expected one of the 3 layers": {"conditioned": 3},
    "'pre' norms; expected unmasked attention": {"block": block(W, NormPlacement.PRE)},
    "AttentionSpec and 'post' norms": {"block": block(W, NormPlacement.POST, causal=True)},
    "patches of 3 pixels and 8 numbers are refined": {
        "refined": True,
        "vision": replace(VISION, embedding=replace(PATCHES, patch_size=3)),
    },
    "reads EmbeddingSpec and EmbeddingSpec": {"vision": TEXT},
    "one class token before the patches": {"vision": replace(VISION, embedding=replace(PATCHES, tokens=0))},
    "without a final norm": {"vision": replace(VISION, final_norm=NORM)},
}


@pytest.mark.parametrize("message", WRONG)
def test_a_spec_that_is_wrong_is_refused(message):
    with pytest.raises(SpecError, match=message):
        replace(SPEC, **WRONG[message])
