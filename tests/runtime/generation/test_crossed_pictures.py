"""Llama 3.2 Vision: a decoder that attends to images in tiles, with the answers of transformers."""

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
    check_turns,
    entries,
)
from helpers.pictured_families import exported, loaded, message, saved

from txexport.contracts.names import IMAGE_SPANS
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime import memory
from txexport.runtime.generation.pictures import prompts_of, read_media, tiles_of
from txexport.runtime.generation.requests import GenerationRequest
from txexport.runtime.generation.running_batch import RunningBatch, rows_of
from txexport.runtime.generation.running_cache import _kept
from txexport.runtime.preprocessing.images import Images

SIZES = [(31, 40), (100, 20), (24, 24), (13, 57), (1, 1), (70, 48), (9, 90)]  # W, H
A, B, C, D, DOT, LARGE, HIGH = (picture(*size) for size in SIZES)
MARK = "<|image|>"
CONVERSATIONS = {
    "one": ["what is it?", A],
    "at the start": [LARGE, "what is it?"],
    "two": [B, "and", C, "these"],
    "three in a row": [D, A, D],
    "some in a row": ["see", HIGH, LARGE, "with", DOT, "and", B],
    "text alone": ["the cat sat on the mat"],
}
PROMPTS = [f"{MARK}the cat sat", "the dog", f"on {MARK} and {MARK} the mat", f"the rug: {MARK}"]
OF_PROMPTS = [A, None, [LARGE, DOT], [B]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return saved("mllama", tmp_path_factory)


@pytest.fixture(scope="module", params=["static", "dynamic"])
def model(request, checkpoint, tmp_path_factory):
    return loaded(exported(checkpoint, request.param, tmp_path_factory))


@pytest.fixture(scope="module")
def original(checkpoint):
    return answers_of(checkpoint, "mllama")


@pytest.fixture(scope="module")
def expected(original):
    """The library's answer to each prompt by itself."""
    pairs = zip(PROMPTS, map(entries, OF_PROMPTS), strict=True)
    return [original(text, images, adds=True, **GREEDY) for text, images in pairs]


@pytest.mark.parametrize("options", [GREEDY, BEAMS], ids=["greedy", "beams"])
@pytest.mark.parametrize("name", CONVERSATIONS)
def test_answers_equal_transformers(name, options, model, original):
    check_conversation(model, original, MARK, CONVERSATIONS[name], options)


def test_answers_differ(model):
    check_distinct(model, CONVERSATIONS, 5)


def test_prompts_without_images_equal_transformers(model, original):
    """Layers that attend to images are passed over, whatever their weights are."""
    for text in ("the cat", "on the mat", "<s>the cat"):
        assert model.generate(text, **GREEDY) == original(text, [], adds=True, **GREEDY)


@pytest.mark.parametrize("options", [{}, {"batch_tokens": 90}], ids=str)
def test_ragged_batches_equal_each_prompt(options, model, expected):
    """In the library, tokens before an image attend to the padding that other rows of a batch bring."""
    assert len(set(expected)) > 2
    assert model.generate(PROMPTS, images=OF_PROMPTS, **GREEDY, **options) == expected
    pieces = [""] * len(PROMPTS)
    for row, piece in model.stream_many(PROMPTS, images=OF_PROMPTS, **GREEDY, **options):
        pieces[row] += piece
    assert pieces == expected


def test_beams_of_ragged_batches_equal_each_prompt(model, original):
    pairs = zip(PROMPTS, map(entries, OF_PROMPTS), strict=True)
    expected = [original(text, images, adds=True, **BEAMS) for text, images in pairs]
    assert model.generate(PROMPTS, images=OF_PROMPTS, **BEAMS) == expected


def test_rows_that_join_and_leave_keep_their_images(model, expected):
    bundle, batch = model.bundle, RunningBatch(model.bundle)
    config, pictured = bundle.files.generation_config.updated(**GREEDY), prompts_of(bundle)
    rows = []
    for text, some in [*zip(PROMPTS, OF_PROMPTS, strict=True)] * 2:
        tiles = tiles_of(bundle, [some], [text])
        texts = [pictured.expanded(text, tiles[0] if some else [])]
        ids = bundle.files.text.encode(texts, adds=pictured.adds_tokens)[0].ids
        rows += rows_of(GenerationRequest(bundle, [ids], config, media=read_media(bundle, [ids], tiles)))
    for row in rows:
        batch.add([row])
        for _ in range(3):
            batch.step()
    while batch.busy:
        batch.step()
    assert bundle.files.text.decode([row.result.tokens for row in rows]) == expected * 2


def test_rows_that_stay_give_up_the_keys_of_those_that_leave():
    keys = np.arange(3 * 2 * 12 * 4, dtype=np.float32).reshape(3, 2, 12, 4)  # of up to 3 images of 4 vectors
    spans = np.zeros((3, 3, 3), np.int64)
    spans[0, :3, 2], spans[1, :1, 2] = 4, 2
    cross = {IMAGE_SPANS: spans, "past_key_values.1.encoder.key": keys}
    for rows, images in (([0, 1], 3), ([1, 2], 1), ([2], 0)):
        left = _kept(cross, np.array(rows))
        assert left[IMAGE_SPANS].shape == (len(rows), images, 3)
        np.testing.assert_array_equal(
            left["past_key_values.1.encoder.key"], keys[rows, :, : 4 * max(1, images)]
        )


def test_drafts_change_no_token(model, expected):
    options = GREEDY | {"prompt_lookup_num_tokens": 3}
    assert model.generate(PROMPTS, images=OF_PROMPTS, **options) == expected


def test_turns_of_a_session_equal_transformers(model, original):
    check_turns(model, original, MARK, (A, LARGE, None, C))


def test_a_session_reads_tokens_before_an_exchanged_image_again(model, read):
    """They attend to all images of a prompt; with the same ones, a session has read them."""
    session = model.session()
    for first, second in ((A, B), (B, A), (A, A), (A, B)):
        messages = [message("see", first, "and", second)]
        assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)
    longer = [*messages, {"role": "assistant", "content": "a cat"}, {"role": "user", "content": "more"}]
    read.clear()
    session.chat(longer, max_new_tokens=1)
    assert 0 < read[0] < 40
    read.clear()
    session.chat([message("see", A, "and", C)], max_new_tokens=1)
    assert read[0] > 10


def test_images_are_encoded_once(model, monkeypatch):
    model.bundle.image_keys.clear()
    session, count = model.bundle.sessions["vision_encoder"], []
    run = session.run_values
    monkeypatch.setattr(session, "run_values", lambda *arguments: (count.append(1), run(*arguments))[1])
    for _ in range(2):
        model.generate(f"{MARK}the cat", images=A, **GREEDY)
    assert count == [1]


def test_tokens_of_images_have_no_score_and_change_no_penalty(model):
    """Their ids are beyond those that are scored."""
    token = model.bundle.image_token_id
    assert token == model.bundle.decoder.width("logits")
    options = GREEDY | {"repetition_penalty": 4.0, "no_repeat_ngram_size": 2}
    assert model.generate(f"{MARK}{MARK}the cat", images=[A, B], **options)
    with pytest.raises(InputError, match=f"{token + 8}"):
        model.generate_ids([[5, token + 8]], **GREEDY)
    with pytest.raises(
        InputError, match=f"token {token} has no score; the model scores tokens 0 to {token - 1}"
    ):
        model.score([f"the {MARK} cat"])


def test_mistakes_are_one_line(model, checkpoint, monkeypatch, tmp_path):
    token = model.bundle.image_token_id
    with pytest.raises(InputError, match="a prompt has 2 tokens for images, expected 1 for 1 image"):
        model.generate_ids([[5, token, token]], images=[A], **GREEDY)
    with pytest.raises(InputError, match="attends to images, which no assistant reads; leave it out"):
        model.generate(f"{MARK}the cat", images=A, assistant_model=model, **GREEDY)
    assert model.generate("the cat", assistant_model=model, **GREEDY) == model.generate("the cat", **GREEDY)
    sizes = []
    monkeypatch.setattr(memory, "check", lambda what, size: sizes.append(size))
    for answers in (1, 3):
        model.generate_ids(
            [[5, token]], images=[A], max_new_tokens=1, do_sample=True, num_return_sequences=answers
        )
    monkeypatch.undo()
    assert 3 * max(sizes[: len(sizes) // 2]) <= max(sizes)
    monkeypatch.setattr(memory, "total", lambda: 2**11)
    with pytest.raises(InputError, match="keys and values of images would take"):
        model.generate_ids([[5, token]], images=[A], max_new_tokens=1)


@pytest.mark.parametrize(("side", "tiles"), [(24, 2), (30, 4)])
def test_other_tiles_than_the_model_s_are_refused(side, tiles, model, monkeypatch, tmp_path):
    size = {"height": side, "width": side}
    transformers.MllamaImageProcessorPil(size=size, max_image_tiles=tiles).save_pretrained(tmp_path)
    monkeypatch.setattr(model.bundle.files, "images", Images(tmp_path))
    with pytest.raises(BundleError, match="but the model reads 4 tiles of 24 pixels a side"):
        model.generate(f"{MARK}the cat", images=A, **GREEDY)


TILES = [
    {"size": {"height": 12, "width": 12}},
    {"size": {"height": 24, "width": 24}, "max_image_tiles": 6, "resample": 3, "image_mean": [0.1, 0.4, 0.8]},
    {"size": {"height": 20, "width": 20}, "max_image_tiles": 1},
    {"size": {"height": 33, "width": 33}, "max_image_tiles": 9, "do_normalize": False},
]


@pytest.mark.parametrize("settings", TILES, ids=range(len(TILES)))
def test_tiles_are_those_of_the_processor(settings, tmp_path):
    """For many sizes: pixels bit for bit, aspect ratios, and masks of tiles."""
    processor = transformers.MllamaImageProcessorPil(**settings)
    processor.save_pretrained(tmp_path)
    sizes = [*SIZES, (25, 24), (48, 48), (49, 47), (1, 90), (90, 2), (300, 5), (200, 150), (23, 23)]
    sizes += [tuple(map(int, pair)) for pair in np.random.default_rng(0).integers(1, 120, (40, 2))]
    images = [picture(*size) for size in sizes]
    expected = processor([images], return_tensors="np")
    values = Images(tmp_path).inputs(images)
    assert len(values) == 3
    for name, array in values.items():
        np.testing.assert_array_equal(array, expected[name][0], err_msg=name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": {"height": 12, "width": 24}}, "expected one height and width of at most 4,096"),
        ({"size": {"longest_edge": 24}}, "expected one height and width"),
        ({"max_image_tiles": 0}, "max_image_tiles 0 is not supported; expected 1 to 64"),
        ({"do_pad": False}, "do_resize and do_pad must be true"),
        ({"do_resize": False}, "do_resize and do_pad must be true"),
    ],
    ids=str,
)
def test_other_settings_are_refused(settings, message, tmp_path):
    kind = {"image_processor_type": "MllamaImageProcessor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(kind | settings))
    with pytest.raises(UnsupportedError, match=message):
        Images(tmp_path)
