"""Images in tiles on a canvas: pixels, grids and numbers of vectors, against transformers' processors."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import transformers
from helpers.pictured import picture
from transformers.models.llava_next.processing_llava_next import LlavaNextProcessor
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor

from txexport.contracts.tile_grid import grid_of, vectors_of
from txexport.errors import InputError, SpecError, UnsupportedError
from txexport.runtime.preprocessing.image_mosaics import CANVASES, LARGER_CANVASES, in_square, in_tiles
from txexport.runtime.preprocessing.images import Images
from txexport.spec import MosaicSpec

SIZES = [(24, 24), (25, 24), (48, 48), (49, 47), (1, 90), (90, 2), (37, 100), (200, 150), (23, 23), (72, 25)]
NEXT = {"size": {"shortest_edge": 24}, "crop_size": {"height": 24, "width": 24}}
ONEVISION = {"size": {"height": 24, "width": 24}}
CANVAS = {"image_grid_pinpoints": [[24, 48], [48, 24], [48, 48], [72, 24], [24, 72]]}
SETTINGS = [
    ("LlavaNext", NEXT | CANVAS),
    ("LlavaNext", NEXT | {"image_grid_pinpoints": [[48, 48]], "resample": 2, "image_mean": [0.1, 0.4, 0.8]}),
    ("LlavaOnevision", ONEVISION | CANVAS),
    ("LlavaOnevision", ONEVISION | CANVAS | {"image_std": [0.2, 0.3, 0.4], "resample": 1}),
]
FILE = "preprocessor_config.json"


def read(kind, settings, folder):
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(**settings)
    processor.save_pretrained(folder)
    return processor, Images(folder)


@pytest.mark.parametrize(("kind", "settings"), SETTINGS, ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_tiles_are_those_of_the_processor(kind, settings, size, tmp_path):
    processor, images = read(kind, settings, tmp_path)
    image = picture(*size)
    expected = processor(image, return_tensors="np")
    values = images.values_of(in_tiles(image, images.size, images.resample))
    np.testing.assert_array_equal(values, expected.pixel_values[0])
    assert expected.image_sizes[0].tolist() == [image.height, image.width]


@pytest.mark.parametrize("settings", [one for kind, one in SETTINGS if kind == "LlavaOnevision"], ids=str)
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_one_of_several_images_is_a_square(settings, size, tmp_path):
    processor, images = read("LlavaOnevision", settings, tmp_path)
    image = picture(*size)
    expected = processor([[image, picture(5, 9)]], return_tensors="np").pixel_values
    assert expected.shape[:2] == (2, 1)
    values = images.values_of(in_square(image, images.size, images.resample))
    np.testing.assert_array_equal(values, expected[0])


def sizes(count: int) -> np.ndarray:
    """Heights and widths, small and large, and some of extreme shapes."""
    draw = np.random.default_rng(0)
    return np.concatenate([draw.integers(1, most, (count, 2)) for most in (60, 700, 4000)]).tolist()


@pytest.mark.parametrize("canvases", [CANVASES, [[672, 672]], [[336, 1344], [1344, 336]]], ids=str)
def test_a_prompt_has_as_many_tokens_as_transformers_writes(canvases):
    """Of LLaVA-NeXT: 336 pixels in patches of 14, with a class token that is left out."""
    processor = LlavaNextProcessor.__new__(LlavaNextProcessor)
    processor.image_processor = SimpleNamespace(image_grid_pinpoints=canvases)
    processor.patch_size, processor.num_additional_image_tokens = 14, 1
    for height, width in sizes(400):
        expected = processor._get_number_of_features(height, width, 336, 336) - 1
        assert vectors_of(grid_of((height, width), canvases, 336, 24, None), 24) == expected, (height, width)


@pytest.mark.parametrize("most", [9, 4, 1])
def test_a_large_map_is_reduced_as_in_transformers(most):
    """Of LLaVA-OneVision: 384 pixels in patches of 14."""
    processor = LlavaOnevisionProcessor.__new__(LlavaOnevisionProcessor)
    processor.image_processor = SimpleNamespace(image_grid_pinpoints=LARGER_CANVASES)
    processor.num_image_tokens, processor.vision_aspect_ratio = 729, f"anyres_max_{most}"
    reduced = 0
    for height, width in sizes(400):
        grid = grid_of((height, width), LARGER_CANVASES, 384, 27, most)
        reduced += grid[2:4] != grid[4:]
        expected = processor._get_number_of_features(height, width, 384, 384)
        assert vectors_of(grid, 27) == expected, (height, width)
    assert reduced > 100


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        ("LlavaNext", NEXT | {"size": {"shortest_edge": 20}}, "size .* with crop_size .* is not supported"),
        ("LlavaNext", NEXT | {"do_resize": False}, "expected one number for all, and do_resize true"),
        ("LlavaOnevision", {"size": {"height": 24, "width": 20}}, "expected one number for all"),
        ("LlavaOnevision", {"size": {"height": "a", "width": "a"}}, "expected one number for all"),
        ("LlavaNext", NEXT | {"image_grid_pinpoints": [[24, 30]]}, "multiples of 24, of at most 16"),
        ("LlavaNext", NEXT | {"image_grid_pinpoints": [[24]]}, "image_grid_pinpoints .* is not supported"),
        ("LlavaNext", NEXT | {"image_grid_pinpoints": []}, "image_grid_pinpoints .* is not supported"),
        ("LlavaNext", NEXT | {"image_grid_pinpoints": [[24 * 2**10] * 2]}, "of at most 16,777,216 pixels"),
    ],
)
def test_other_settings_are_refused(kind, settings, message, tmp_path):
    (tmp_path / FILE).write_text(json.dumps({"image_processor_type": f"{kind}ImageProcessor"} | settings))
    with pytest.raises(UnsupportedError, match=message):
        Images(tmp_path)


def test_a_square_around_a_narrow_image_is_bounded(tmp_path):
    _, images = read("LlavaOnevision", ONEVISION | CANVAS, tmp_path)
    with pytest.raises(InputError, match="an image of 20000 x 1 would become a square of 400,000,000 pixels"):
        in_square(picture(20_000, 1), images.size, images.resample)


def test_canvases_that_no_tiles_fill_are_refused():
    with pytest.raises(SpecError, match=r"canvases are .* expected multiples of 24"):
        MosaicSpec(24, 4, ((24, 40),))
    with pytest.raises(SpecError, match="expected multiples of 24"):
        MosaicSpec(24, 4, ())
