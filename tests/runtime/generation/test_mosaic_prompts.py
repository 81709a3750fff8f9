"""LLaVA-NeXT's and LLaVA-OneVision's prompts, with images of any size: answers against transformers."""

import pytest
import torch
from helpers.pictured import picture
from helpers.pictured_families import MOSAICS, exported, loaded, new_text, original_of, saved

from txexport.errors import InputError

GREEDY = {"max_new_tokens": 8, "do_sample": False}
CHANGING = GREEDY | {"repetition_penalty": 4.0}
BEAMS = CHANGING | {"num_beams": 3}
A, B, C, D = (picture(*size) for size in [(31, 40), (100, 20), (24, 24), (13, 57)])
PROMPTS = [
    ("<image>what is it?", [A]),
    ("<image>", [B]),
    ("before <image> and after", [C]),
    ("<image>a tall one", [D]),
    ("<image><image>which is the dog?", [A, D]),
    ("one <image> two <image> three <image>", [C, A, B]),
    ("the cat sat on the mat", []),
    ("<image> again", [A]),
]


@pytest.fixture(scope="module", params=MOSAICS)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def checkpoint(family, tmp_path_factory):
    return saved(family, tmp_path_factory)


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    return loaded(exported(checkpoint, request.param, tmp_path_factory))


@pytest.fixture(scope="module")
def original(family, checkpoint):
    return original_of(checkpoint, family)


def expected(original, text, images, options):
    processor, _ = original
    inputs = processor(text=[text], images=[images] if images else None, return_tensors="pt")
    return new_text(original, inputs, **options)


@pytest.mark.parametrize("options", [GREEDY, CHANGING, BEAMS], ids=str)
def test_answers_equal_transformers(options, model, original):
    answers = [expected(original, text, images, options) for text, images in PROMPTS]
    assert len(set(answers)) > 3
    texts, images = zip(*PROMPTS, strict=True)
    assert [model.generate(one, images=some, **options) for one, some in PROMPTS] == answers
    assert model.generate(list(texts), images=list(images), **options) == answers


def test_an_image_among_others_is_another_one(family, model, original):
    """LLaVA-OneVision cuts an image only where it is alone: a session does not take one for the other."""
    session, features = model.session(), model.bundle.image_features
    features.clear()
    for images in ([A], [A, B], [A]):
        text = "<image>" * len(images) + "what is it?"
        answer = expected(original, text, images, CHANGING)
        assert session.generate(text, images=images, **CHANGING) == answer
    counts = {"llava_next": [39, 19], "llava_onevision": [29, 10, 10]}  # A, (A among others,) B
    assert [len(one) for one in features.values()] == counts[family]


def test_the_graph_of_images_takes_the_tiles_of_one(model):
    pixels = {"pixel_values": torch.zeros(5, 3, 24, 24).numpy()}
    for grid, count in (((2, 2, 6, 6, 6, 6), 9 + 6 * 7), ((2, 2, 4, 6, 3, 5), 9 + 3 * 6)):
        features = model.run("vision_encoder", **pixels, tile_grid=torch.tensor([grid]).numpy())
        if "onevision" in model.bundle.manifest.model_type or grid[2:4] == grid[4:]:
            assert features["image_features"].shape == (count, 48)
    with pytest.raises(InputError, match="tile_grid"):
        model.run("vision_encoder", **pixels)
