"""Images in squares behind a blur, beside the processor of OWLv2, which computes them with SciPy."""

import json

import numpy as np
import pytest
import transformers

from txexport.errors import BundleError, UnsupportedError
from txexport.runtime.preprocessing.images import Images

SIZES = [(50, 70), (70, 50), (64, 64), (1, 7), (9, 2), (401, 300), (301, 900)]
SETTINGS = {
    "as it is": {},
    "smaller": {"size": {"height": 60, "width": 60}},
    "oblong": {"size": {"height": 31, "width": 47}},
    "not padded": {"do_pad": False, "size": {"height": 60, "width": 40}},
    "not normalised": {"do_normalize": False, "size": {"height": 60, "width": 60}},
    "mean of each channel": {"image_mean": [0.1, 0.4, 0.8], "image_std": [0.2, 0.3, 0.9]},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_values_are_the_original_s(name, tmp_path):
    processor = transformers.Owlv2ImageProcessorPil(**SETTINGS[name])
    processor.save_pretrained(tmp_path)
    images = Images(tmp_path)
    for number, (height, width) in enumerate(SIZES):
        pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), np.uint8)
        expected = processor(pixels, return_tensors="np", input_data_format="channels_last")["pixel_values"]
        values = images.pixels(pixels)
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, expected)


REFUSED = [
    ({"do_resize": False}, UnsupportedError, "needs do_resize, to a height and a width"),
    ({"size": {"shortest_edge": 60}}, UnsupportedError, "needs do_resize, to a height and a width"),
    ({"do_rescale": False}, UnsupportedError, "needs do_rescale, and a resample other than 0"),
    ({"resample": 0}, UnsupportedError, "needs do_rescale, and a resample other than 0"),
    ({"image_mean": [0.5, 0.5]}, BundleError, "expected a number, and one or three each"),
    ({"image_std": ["a", 1, 1]}, BundleError, "expected a number, and one or three each"),
]


@pytest.mark.parametrize(("settings", "error", "message"), REFUSED)
def test_other_settings_are_refused(settings, error, message, tmp_path):
    values = {"image_processor_type": "Owlv2ImageProcessor"} | settings
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    with pytest.raises(error, match=message):
        Images(tmp_path)
