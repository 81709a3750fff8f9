"""Tiles, prompts and answers of each family that reads images among texts, against transformers."""

import json
from importlib.util import find_spec

import numpy as np
import pytest
import transformers
from helpers.bundle_edits import relist
from helpers.pictured import picture
from helpers.pictured_families import (
    BEGINNING,
    FITTED,
    MOSAICS,
    PACKED,
    TOKENS,
    WITHOUT_VIDEOS,
    exported,
    loaded,
    message,
    new_text,
    original_of,
    saved,
)

import txexport
from txexport.errors import UnsupportedError
from txexport.runtime.preprocessing.images import Images
from txexport.verification.checks import IMAGE_PROMPTS

GREEDY = {"max_new_tokens": 8, "do_sample": False}
BEAMS = GREEDY | {"num_beams": 3}
A, B, C, D = (picture(*size) for size in [(31, 40), (100, 20), (24, 24), (13, 57)])
CONVERSATIONS = [["what is it?", A], [B, "and", C, "these"], ["no image"], [D, A, D]]
SIZES = [(24, 24), (25, 24), (48, 48), (49, 47), (1, 90), (90, 2), (37, 100), (200, 150), (23, 23)]  # W, H
FILE = "preprocessor_config.json"


@pytest.fixture(
    scope="module",
    params=["idefics3", "smolvlm", "gemma3", "internvl", "lfm2_vl", "mllama", *FITTED, *PACKED, *MOSAICS],
)
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


def inputs_of(original, family, content):
    """The inputs that the library makes of a conversation of texts and images."""
    processor, _ = original
    mark = BEGINNING.get(family, TOKENS[family][0])
    text = "".join(one if isinstance(one, str) else mark for one in content)
    images = [one for one in content if not isinstance(one, str)]
    inputs = processor(
        text=f"<s>user: {text} assistant:",
        images=[images] if images and family == "llava_onevision" else images or None,
        return_tensors="pt",
        add_special_tokens=False,
    )
    return {name: value for name, value in inputs.items() if name not in ("num_crops", "rows", "cols")}


@pytest.mark.parametrize("content", CONVERSATIONS, ids=len)
def test_answers_equal_transformers(content, model, original, family):
    messages, inputs = [message(*content)], inputs_of(original, family, content)
    for options in (GREEDY, BEAMS):
        assert model.chat(messages, **options) == new_text(original, inputs, **options)
    session = model.session()
    answer = session.chat(messages, **GREEDY)
    assert answer == model.chat(messages, **GREEDY)
    messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": "more"}]
    assert session.chat(messages, **GREEDY) == model.chat(messages, **GREEDY)


def test_answers_differ(model):
    """Wrong images or positions would not be seen in answers that are all the same."""
    assert len({model.chat([message(*content)], **GREEDY) for content in CONVERSATIONS}) > 2


def test_many_images_answer_as_each_alone(model):
    question = "what is it?"
    answers = [model.ask_image(image, question, **GREEDY) for image in (A, B, C)]
    assert len(set(answers)) > 2
    assert model.ask_image([A, B, C], question, **GREEDY) == answers


def test_verify_compares_prompts_and_conversations(family, checkpoint, tmp_path):
    out = tmp_path / "out"
    txexport.export(checkpoint, out, only="native")
    report = txexport.verify(out, reference="twin", cases=[IMAGE_PROMPTS])
    [case] = report.cases
    if family in WITHOUT_VIDEOS and find_spec("torchvision") is None:
        assert case.name == IMAGE_PROMPTS
        assert "needs torchvision" in case.skipped
        assert case.checks == []
        return
    assert report.ok
    assert [check.elements for check in case.checks] == [6, 6]
    settings = json.loads((out / "processor_config.json").read_text())
    (out / "processor_config.json").write_text(
        json.dumps(settings | {"image_processor": settings["image_processor"] | {"image_std": [0.4] * 3}})
    )
    [case] = txexport.verify(relist(out), reference="twin", cases=[IMAGE_PROMPTS]).failed
    assert "pixels" in case.exception


TILED = {"size": {"longest_edge": 60}, "max_image_size": {"longest_edge": 24}}
CANVAS = {"size": {"height": 24, "width": 20}, "crop_to_patches": True, "max_patches": 6}
SETTINGS = [
    ("Idefics3", TILED),
    ("SmolVLM", TILED),
    ("Idefics3", TILED | {"do_image_splitting": False}),
    ("Idefics3", TILED | {"do_resize": False}),
    ("Idefics3", TILED | {"resample": 2, "image_mean": [0.1, 0.4, 0.8]}),
    ("GotOcr2", CANVAS),
    ("GotOcr2", CANVAS | {"min_patches": 3, "max_patches": 12}),
    ("GotOcr2", CANVAS | {"max_patches": 1}),
]


@pytest.mark.parametrize(("kind", "settings"), SETTINGS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_tiles_are_those_of_the_processor(kind, settings, size, tmp_path):
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(**settings)
    processor.save_pretrained(tmp_path)
    image = picture(*size)
    tiled = kind != "GotOcr2"
    more = {"return_row_col_info": True} if tiled else {}
    expected = processor([[image]] if tiled else image, return_tensors="np", **more)
    tiles = Images(tmp_path).tiles(image)
    values = expected.pixel_values[0] if tiled else expected.pixel_values
    np.testing.assert_array_equal(tiles.values, values)
    if tiled:
        assert (tiles.rows, tiles.columns) == (expected["rows"][0][0], expected["cols"][0][0])


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("Idefics3", {"max_image_size": {"height": 24, "width": 24}}, "max_image_size .* is not supported"),
        ("Idefics3", {"size": {"longest_edge": 9999}}, "expected a longest_edge of at most 4,096"),
        ("Idefics3", {"do_image_splitting": 1}, "do_image_splitting 1 is not supported"),
        ("GotOcr2", {"min_patches": 5, "max_patches": 4}, "5 to 4 tiles are not supported"),
        ("GotOcr2", {"size": {"shortest_edge": 24}}, "expected a height and a width of at most 4,096"),
        ("Gemma3", {"do_pan_and_scan": True}, "do_pan_and_scan is not supported; set it to false"),
    ],
)
def test_other_settings_are_refused(kind, settings, message, tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"image_processor_type": f"{kind}ImageProcessor"} | settings))
    with pytest.raises(UnsupportedError, match=message):
        Images(tmp_path)
