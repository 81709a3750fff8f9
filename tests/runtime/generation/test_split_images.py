"""LFM2-VL: images of any shape, large ones in tiles, over a decoder with states: answers of transformers."""

import json
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest
from helpers import lfm2_vl_processor
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
from helpers.pictured_families import (
    SPLITTING,
    exported,
    loaded,
    saved,
)

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import InputError, UnsupportedError
from txexport.runtime import memory
from txexport.runtime.generation import media
from txexport.runtime.generation.pictures import prompts_of, read_media, tiles_of
from txexport.runtime.preprocessing.images import Images
from txexport.verification.processors import prompts

SIZES = [(31, 40), (100, 20), (24, 24), (13, 37), (1, 1), (70, 48), (59, 90)]  # W, H
A, B, C, D, DOT, LARGE, HIGH = (picture(*size) for size in SIZES)
CONVERSATIONS = {
    "one": ["what is it?", A],
    "tiles alone": [HIGH],
    "two": [B, "and", C, "these"],
    "three in a row": [D, A, D],
    "tiles among others": ["see", C, LARGE, DOT, "and", B],
}
OF_PROMPTS = [A, None, [LARGE, DOT], [B]]
PROMPTS = ["<image>the cat sat", "the dog", "on <image>and<image> the mat", "the rug: <image>"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return saved("lfm2_vl", tmp_path_factory)


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    return loaded(exported(checkpoint, request.param, tmp_path_factory))


@pytest.fixture(scope="module")
def original(checkpoint):
    return answers_of(checkpoint, "lfm2_vl")


@pytest.mark.parametrize("options", [GREEDY, BEAMS], ids=["greedy", "beams"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_equal_transformers(name, options, model, original):
    check_conversation(model, original, "<image>", CONVERSATIONS[name], options)


def test_answers_differ(model):
    check_distinct(model, CONVERSATIONS, 4)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"batch_tokens": 90}], ids=str)
def test_ragged_batches_equal_each_prompt(options, model, original):
    check_ragged(model, original, PROMPTS, OF_PROMPTS, options)


def test_rows_that_join_and_leave_keep_their_states(model):
    check_joining(model, PROMPTS, OF_PROMPTS)


def test_turns_of_a_session_equal_transformers(model, original):
    check_turns(model, original, "<image>", (A, LARGE, None, C))


def test_a_next_prompt_reads_an_image_from_its_states(model, monkeypatch):
    """A prompt that begins with all that a session has read computes its new tokens alone."""
    session, bundle = model.session(), model.bundle
    first, second = (prompts_of(bundle).tiles([one])[0] for one in (LARGE, DOT))
    vectors = [sum(part.vectors for part in one.parts) for one in (first, second)]
    prompt = [5, *[bundle.image_token_id] * vectors[0], 6]
    prompt += session.generate_ids([prompt], images=[LARGE], **GREEDY)[0]
    longer = [*prompt, *[bundle.image_token_id] * vectors[1], 7]
    expected = model.generate_ids([longer], images=[[LARGE, DOT]], **GREEDY)
    counts, between = [], media.features_between

    def counted(*rows):
        counts.extend(map(len, parts := between(*rows)))
        return parts

    monkeypatch.setattr(media, "features_between", counted)
    assert session.generate_ids([longer], images=[[LARGE, DOT]], **GREEDY) == expected
    assert counts == [vectors[1]]


def test_an_image_of_too_many_patches_is_refused(model, monkeypatch):
    monkeypatch.setattr(memory, "total", lambda: 2**11)
    model.bundle.image_features.clear()
    ids, tiles = [model.bundle.image_token_id] * 4, tiles_of(model.bundle, [A], ["x"])
    with pytest.raises(InputError, match="attention over the 16 patches of an image"):
        read_media(model.bundle, [ids], tiles)


def test_a_narrow_image_is_refused(model):
    with pytest.raises(InputError, match=r"an image of 400 x 3 would have .* it is too narrow: crop it"):
        model.generate("a <image>", images=picture(400, 3), **GREEDY)


def test_borders_are_left_out_where_the_processor_does(model, checkpoint, tmp_path):
    prompts, tiles = prompts_of(model.bundle), prompts_of(model.bundle).tiles([LARGE, DOT])
    folder = prompts.files.folder / "processor_config.json"
    folder.write_text(json.dumps({"use_image_special_tokens": False}))
    try:
        text = prompts.expanded("a <image><image> b", tiles)
    finally:
        folder.unlink()
    vectors = sum(part.vectors for one in tiles for part in one.parts)
    assert text == f"a {'<image>' * vectors} b"
    processor = lfm2_vl_processor.processor(checkpoint)
    theirs = processor(
        text="a <image><image> b", images=[LARGE, DOT], return_tensors="np", use_image_special_tokens=False
    )
    assert prompts.files.text.encode([text], adds=False)[0].ids == theirs["input_ids"][0].tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"min_tiles": 3, "max_tiles": 7},
        {"use_thumbnail": False},
        {"do_image_splitting": False},
        {"max_pixels_tolerance": 0.5},
        {"downsample_factor": 1, "image_mean": [0.1, 0.4, 0.8]},
    ],
    ids=str,
)
def test_patches_are_those_of_the_processor(settings, tmp_path):
    processor = lfm2_vl_processor.image_processor(**SPLITTING | settings)
    processor.save_pretrained(tmp_path)
    ours = Images(tmp_path)
    for size in [*SIZES, (300, 200), (97, 31), (23, 25)]:
        image = picture(*size)
        expected = processor(image, return_tensors="np", return_row_col_info=True)
        for name, value in ours.inputs(image).items():
            np.testing.assert_array_equal(value, expected[name])
        split = ours.split(image)
        tiles = max(split.rows, 1), max(split.columns, 1)
        assert tiles == (expected["image_rows"][0], expected["image_cols"][0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tile_size": 20}, "and a tile of whole squares of patches"),
        ({"min_image_tokens": 300}, "expected numbers from 1, the least tokens first"),
        ({"encoder_patch_size": "6"}, "expected numbers from 1"),
        ({"min_tiles": 1}, "1 to 6 tiles are not supported; expected 2 to 64, or 1 alone"),
        ({"max_tiles": 99}, "2 to 99 tiles are not supported"),
        ({"use_thumbnail": 1}, "use_thumbnail 1 and max_pixels_tolerance 2.0 are not supported"),
        ({"max_pixels_tolerance": 0}, "expected true or false, and a number above 0"),
    ],
)
def test_other_settings_are_refused(settings, message, tmp_path):
    values = {"image_processor_type": "Lfm2VlImageProcessorFast"} | SPLITTING | settings
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    with pytest.raises(UnsupportedError, match=message):
        Images(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"max_image_tokens": 9}, "token ids"), ({"image_mean": [0.4] * 3}, "pixels")],
    ids=["tokens", "pixels"],
)
def test_verify_compares_with_a_processor(changes, message, model, checkpoint, monkeypatch):
    """As where torchvision is installed; other tokens and other pixels are seen."""
    settings = {**SPLITTING}

    @contextmanager
    def processor(*_, **__):
        yield lfm2_vl_processor.processor(checkpoint, **settings)

    monkeypatch.setattr(prompts, "original", processor)
    bundle = model.bundle
    check = partial(prompts.check, bundle.files.folder, bundle.manifest, Checkpoint(checkpoint), quick=False)
    assert [one.elements for one in check()] == [6, 6]
    settings |= changes
    with pytest.raises(AssertionError, match=message):
        check()
