"""Images in squares behind a blur, beside the processor of OWLv2, which computes them with SciPy."""

import json

import numpy as np
import pytest
import transformers

from txexport.errors import UnsupportedError
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
        assert values.shape == expected.shape
        assert np.abs(values - expected).max() < 2e-6


@pytest.mark.parametrize("settings", [{"do_resize": False}, {"size": {"shortest_edge": 60}}])
def test_other_sizes_are_refused(settings, tmp_path):
    values = {"image_processor_type": "Owlv2ImageProcessor"} | settings
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(values))
    with pytest.raises(UnsupportedError, match="needs do_resize, to a height and a width"):
        Images(tmp_path)
