"""Pixtral and Mistral Small 3.1: images of any size, whose rows other tokens end: answers of transformers."""

import json

import numpy as np
import pytest
import transformers
from helpers.pictured import picture
from helpers.pictured_answers import (
    BEAMS,
    GREEDY,
    answers_of,
    check_conversation,
    check_distinct,
    check_joining,
    check_ragged,
    check_turns,
)
from helpers.pictured_families import FITTED, exported, loaded, message, saved

from txexport.contracts import roles
from txexport.errors import InputError, UnsupportedError
from txexport.runtime import memory
from txexport.runtime.generation.pictures import prompts_of, read_media, tiles_of
from txexport.runtime.preprocessing.images import Images

SIZES = [(31, 40), (100, 20), (24, 24), (13, 57), (11, 1), (70, 48), (9, 90)]  # W, H
A, B, C, D, DOT, LARGE, HIGH = (picture(*size) for size in SIZES)
CONVERSATIONS = {
    "one": ["what is it?", A],
    "one alone": [HIGH],
    "two": [B, "and", C, "these"],
    "three in a row": [D, A, D],
    "four": ["see", LARGE, "then", C, B, "and", DOT, "at last"],
}
OF_PROMPTS = [A, None, [LARGE, DOT], [B]]
PROMPTS = ["[IMG]the cat sat", "the dog", "on [IMG]and[IMG] the mat", "the rug: [IMG]"]


@pytest.fixture(scope="module", params=FITTED)
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
    return answers_of(checkpoint, family)


@pytest.mark.parametrize("options", [GREEDY, BEAMS], ids=["greedy", "beams"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_equal_transformers(name, options, model, original):
    check_conversation(model, original, "[IMG]", CONVERSATIONS[name], options)


def test_answers_differ(model):
    check_distinct(model, CONVERSATIONS, 4)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"batch_tokens": 90}], ids=str)
def test_ragged_batches_equal_each_prompt(options, model, original):
    check_ragged(model, original, PROMPTS, OF_PROMPTS, options)


def test_drafts_change_no_token(model):
    expected = model.generate(PROMPTS, images=OF_PROMPTS, **GREEDY)
    assert model.generate(PROMPTS, images=OF_PROMPTS, prompt_lookup_num_tokens=3, **GREEDY) == expected


def test_rows_that_join_and_leave(model):
    check_joining(model, PROMPTS, OF_PROMPTS)


def test_turns_of_a_session_equal_transformers(model, original):
    check_turns(model, original, "[IMG]", (A, LARGE, None, C))


def test_each_row_of_an_image_is_told_apart(model):
    """Two images with an equal first row of pixels, in one session."""
    values = np.random.default_rng(4).integers(0, 256, (2, 40, 40, 3), np.uint8)
    values[1, :10] = values[0, :10]
    bundle, session = model.bundle, model.session()
    tiles = tiles_of(bundle, [*values], ["x", "x"])
    texts = [prompts_of(bundle).expanded("[IMG]", one) for one in tiles]
    rows = [one.ids for one in bundle.files.text.encode(texts)]
    first, second = read_media(bundle, rows, tiles)
    count = 40 // prompts_of(bundle).square
    assert [one.length for one in first] == [count] * count
    assert len({one.digest for one in (*first, *second)}) == 2 * count
    features = np.concatenate([one.features for one in first])
    vectors = bundle.sessions[roles.IMAGE_ENCODER].run({"pixel_values": tiles[0][0].values})["image_features"]
    np.testing.assert_array_equal(features, vectors)
    for image in (values[0], values[1], values[0]):
        messages = [message(image, "the cat")]
        assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)


def test_an_image_of_too_many_patches_is_refused(model, monkeypatch):
    monkeypatch.setattr(memory, "total", lambda: 2**11)
    model.bundle.image_features.clear()
    square = prompts_of(model.bundle).square
    image = picture(20, 20)
    ids, tiles = [model.bundle.image_token_id] * (20 // square) ** 2, tiles_of(model.bundle, [image], ["x"])
    with pytest.raises(InputError, match=r"attention over the 16 patches .* \(a lower longest_edge"):
        read_media(model.bundle, [ids], tiles)


def test_squares_are_those_of_the_graph(model, family):
    """A processor rounds to its own squares, whatever its part for images says."""
    folder = model.bundle.files.folder
    settings = json.loads((folder / "preprocessor_config.json").read_text())
    assert settings["patch_size"] == 5
    image = prompts_of(model.bundle).tiles([LARGE])[0]
    assert image.values.shape[2:] == ((40, 50) if family == "mistral3" else (35, 50))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"size": {"longest_edge": 33}},
        {"size": {"height": 20, "width": 61}},
        {"patch_size": {"height": 7, "width": 7}, "resample": 2, "image_mean": [0.1, 0.4, 0.8]},
    ],
    ids=str,
)
def test_pixels_are_those_of_the_processor(settings, tmp_path):
    processor = transformers.PixtralImageProcessorPil(**settings)
    processor.save_pretrained(tmp_path)
    for size in [*SIZES, (300, 200), (97, 31), (23, 25)]:
        image = picture(*size)
        expected = processor(image, return_tensors="np")
        np.testing.assert_array_equal(Images(tmp_path).pixels(image), expected.pixel_values)


@pytest.mark.parametrize(
    "settings",
    [
        {"size": {"shortest_edge": 20}},
        {"size": {"longest_edge": 9999}},
        {"patch_size": {"height": 4, "width": 5}},
        {"patch_size": 0},
        {"do_resize": False},
    ],
    ids=str,
)
def test_other_settings_are_refused(settings, tmp_path):
    values = {"image_processor_type": "PixtralImageProcessorFast"} | settings
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    with pytest.raises(UnsupportedError, match="is not supported"):
        Images(tmp_path)
