"""Images of any size as packed patches: transformers' processor, bit for bit."""

import json

import numpy as np
import pytest
import transformers
from helpers.pictured import picture

from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.runtime.preprocessing.image_packing import Packing
from txexport.runtime.preprocessing.images import Images

FILE = "preprocessor_config.json"
TYPE = {"image_processor_type": "Qwen2VLImageProcessorFast"}
SIZES = [(28, 28), (29, 13), (1, 1), (200, 1), (3, 600), (97, 211), (640, 480), (14, 14), (1000, 41)]  # W, H
SETTINGS = [
    {},
    {"min_pixels": 28 * 28, "max_pixels": 28 * 28 * 16},
    {"size": {"shortest_edge": 10_000, "longest_edge": 50_000}, "patch_size": 16},
    {"patch_size": 4, "merge_size": 3, "temporal_patch_size": 1, "max_pixels": 12 * 12 * 7, "min_pixels": 1},
    {"resample": 2, "image_mean": [0.1, 0.4, 0.8], "do_rescale": False, "max_pixels": 50_000},
    {"do_normalize": False, "max_pixels": 50_000},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_patches_are_those_of_the_processor(settings, tmp_path):
    processor = transformers.Qwen2VLImageProcessorPil(**settings)
    (tmp_path / FILE).write_text(json.dumps(TYPE | settings))
    images, pictures = Images(tmp_path), [picture(*size) for size in SIZES]
    for one in pictures:
        expected = processor(one, return_tensors="np")
        patches = images.patches(one)
        np.testing.assert_array_equal(patches.values, expected.pixel_values)
        assert [[1, patches.rows, patches.columns]] == expected.image_grid_thw.tolist()
    together = processor(pictures, return_tensors="np")
    computed = images.inputs(pictures)
    np.testing.assert_array_equal(computed["pixel_values"], together.pixel_values)
    np.testing.assert_array_equal(computed["image_grid_thw"], together.image_grid_thw)


def test_sizes_are_those_of_the_processor():
    """Of every height and width, at the bounds of published checkpoints."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

    draw = np.random.default_rng(0)
    for least, most, side in ((56 * 56, 28 * 28 * 1280, 14), (3136, 12_845_056, 14), (65536, 2**24, 16)):
        packing = Packing(side, 2, 2, least, most)
        drawn = draw.integers(1, 3000, (2000, 2)).tolist()
        read = [(high, wide) for high, wide in drawn if max(high, wide) <= 200 * min(high, wide)]
        assert len(read) > 1900
        for size in read:
            assert packing.resized(*size) == smart_resize(*size, 2 * side, least, most)


def test_a_line_is_refused(tmp_path):
    (tmp_path / FILE).write_text(json.dumps(TYPE))
    images = Images(tmp_path)
    assert images.patches(picture(200, 1)).vectors
    for size in ((201, 1), (2, 401)):
        with pytest.raises(InputError, match="has an aspect ratio above 200; crop it"):
            images.patches(picture(*size))


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"do_resize": False}, UnsupportedError, "do_resize false is not supported for patches"),
        ({"min_pixels": 9000, "max_pixels": 8000}, UnsupportedError, "9000 to 8000 pixels are not supported"),
        ({"size": {"height": 24, "width": 24}}, UnsupportedError, "None to None pixels are not supported"),
        ({"merge_size": 0}, UnsupportedError, "merge_size and temporal_patch_size .* are not supported"),
        ({"patch_size": True}, UnsupportedError, "expected numbers from 1"),
        ({"max_pixels": 2**25}, BundleError, "expected at most 16,777,216 pixels"),
    ],
    ids=str,
)
def test_other_settings_are_refused(settings, kind, message, tmp_path):
    (tmp_path / FILE).write_text(json.dumps(TYPE | settings))
    with pytest.raises(kind, match=message):
        Images(tmp_path)
