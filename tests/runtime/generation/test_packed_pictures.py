"""Images of any size, and positions by frame, row and column: prompts give transformers' tokens."""

import numpy as np
import pytest
import torch
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
    BEGINNING,
    PACKED,
    exported,
    loaded,
    message,
    saved,
)

from txexport.errors import InputError
from txexport.runtime import memory
from txexport.runtime.generation.media import Medium, positions_of
from txexport.runtime.generation.pictures import read_media, tiles_of

MARK = BEGINNING["qwen2_vl"]
SIZES = [(31, 40), (100, 20), (24, 24), (13, 57), (1, 1), (200, 3), (64, 48), (9, 90)]  # W, H
A, B, C, D, DOT, LONG, LARGE, HIGH = (picture(*size) for size in SIZES)
CONVERSATIONS = {
    "no image": ["hello there"],
    "one": ["what is it?", A],
    "one alone": [HIGH],
    "two": [B, "and", C, "these"],
    "a pixel and a line": [DOT, "or", LONG],
    "three in a row": [D, A, D],
    "four": ["see", LARGE, "then", C, B, "and", LONG, "at last"],
    "the largest": ["the cat sat on the mat, and", LARGE],
}
OF_PROMPTS = [A, None, [LARGE, DOT], [LONG]]
PROMPTS = [f"{MARK}the cat sat", "the dog", f"on {MARK}and{MARK} the mat", f"the rug: {MARK}"]


@pytest.fixture(scope="module", params=PACKED)
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
    check_conversation(model, original, MARK, CONVERSATIONS[name], options)


def test_answers_differ(model):
    check_distinct(model, CONVERSATIONS, 7)


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"batch_tokens": 90}], ids=str)
def test_ragged_batches_equal_each_prompt(options, model, original):
    check_ragged(model, original, PROMPTS, OF_PROMPTS, options)


def test_drafts_change_no_token(model):
    if model.bundle.manifest.model_type == "qwen3_5":
        with pytest.raises(InputError, match="states, which cannot be rolled back"):
            model.generate(PROMPTS, images=OF_PROMPTS, prompt_lookup_num_tokens=3)
        return
    expected = model.generate(PROMPTS, images=OF_PROMPTS, **GREEDY)
    assert model.generate(PROMPTS, images=OF_PROMPTS, prompt_lookup_num_tokens=3, **GREEDY) == expected


def test_rows_that_join_and_leave_have_their_own_positions(model):
    check_joining(model, PROMPTS, OF_PROMPTS)


def arranged(squares, rows):
    """An image of squares (n,8,8,3), row by row."""
    lines = squares.reshape(rows, -1, 8, 8, 3).transpose(0, 2, 1, 3, 4)
    return lines.reshape(8 * rows, -1, 3)


def test_images_of_other_shapes_are_told_apart(model):
    """Two images whose patches are the same numbers, in other rows and columns."""
    squares = np.random.default_rng(4).integers(0, 256, (8, 8, 8, 3), np.uint8)
    wide, high = arranged(squares, 2), arranged(squares, 4)
    patches = [model.images.patches(one) for one in (wide, high)]
    assert np.array_equal(patches[0].values, patches[1].values)
    bundle, ids = model.bundle, [5, *[model.bundle.image_token_id] * 8]
    tiles = tiles_of(bundle, [wide, high], [ids, ids])
    (first,), (second,) = read_media(bundle, [ids, ids], tiles)
    assert np.abs(first.features - second.features).max() > 0.01
    assert first.digest != second.digest
    session = model.session()
    for images in ((wide, A), (high, A), (wide, A), (high, wide)):
        messages = [message("see", images[0], "and", images[1], "the cat")]
        assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)


def test_turns_of_a_session_equal_transformers(model, original):
    check_turns(model, original, MARK, (A, LARGE, None, C))


def test_positions_are_those_of_the_library(original):
    """Also of a part of a prompt, for each row its own."""
    network, token = original.network.model, original.network.config.image_token_id
    grids = [[(3, 5), (1, 1)], [], [(4, 2)]]
    rows, media = [], []
    for sides in grids:
        row, pictured = [5, 6], []
        for side in sides:
            length = side[0] * side[1]
            pictured.append(Medium(len(row), length, b"", None, side))
            row += [*[token] * length, 7]
        rows.append(row + [8] * (30 - len(row)))
        media.append(tuple(pictured))
    ids = torch.tensor(rows)
    images = torch.tensor([(1, 2 * high, 2 * wide) for sides in grids for high, wide in sides])
    expected, deltas = network.get_rope_index(ids, (ids == token).int(), images)
    computed = positions_of(media, np.zeros(3, np.int64), 30)
    np.testing.assert_array_equal(computed, expected.numpy())
    starts = np.array([9, 0, 5])
    part = positions_of(media, starts, 4)
    for row, start in enumerate(starts):
        np.testing.assert_array_equal(part[:, row], expected.numpy()[:, row, start : start + 4])
    behind = positions_of(media, np.full(3, 40), 1)
    np.testing.assert_array_equal(behind[:, :, 0], np.broadcast_to(40 + deltas[:, 0].numpy(), (3, 3)))


def test_an_image_of_too_many_patches_is_refused(model, monkeypatch):
    monkeypatch.setattr(memory, "total", lambda: 2**14)
    model.bundle.image_features.clear()
    ids, tiles = [model.bundle.image_token_id] * 24, tiles_of(model.bundle, [LARGE], ["x"])
    with pytest.raises(InputError, match=r"attention over the 96 patches of an image \(a lower max_pixels"):
        read_media(model.bundle, [ids], tiles)


def test_what_is_not_read_is_one_line(model):
    for content, expected in (
        ([{"type": "video", "video": "a.mp4"}], "a part of a message is a video, which is not read"),
        ([{"type": "image", "image": picture(402, 2)}], "an image of 402 x 2 has an aspect ratio above 200"),
    ):
        with pytest.raises(InputError, match=expected):
            model.chat([{"role": "user", "content": content}], **GREEDY)
    ids = [5, *[model.bundle.image_token_id] * 7]
    with pytest.raises(InputError, match="a prompt has 7 tokens for images, expected 9 for 1 image"):
        model.generate_ids([ids], images=[C], max_new_tokens=1)
