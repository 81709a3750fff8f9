"""Images cut into patches against transformers' processor, to the last bit."""

import json

import numpy as np
import pytest
import transformers

from txexport.errors import UnsupportedError
from txexport.runtime.preprocessing.images import Images

SIZES = [(37, 53), (53, 37), (224, 224), (225, 301), (300, 199), (19, 500), (1, 7), (640, 480), (16, 16)]
SETTINGS = {
    "usual": {},
    "few small patches": {"patch_size": 6, "max_num_patches": 25},
    "one patch": {"patch_size": 14, "max_num_patches": 1},
    "an odd number, cubic": {"patch_size": 3, "max_num_patches": 1023, "resample": 3},
    "bytes": {"patch_size": 8, "max_num_patches": 64, "do_rescale": False, "do_normalize": False},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_patches_are_those_of_transformers(name, tmp_path):
    """Of one image, and of a batch of several shapes."""
    processor, random = transformers.Siglip2ImageProcessorPil(**SETTINGS[name]), np.random.default_rng(3)
    processor.save_pretrained(tmp_path)
    ours, shapes = Images(tmp_path), set()
    images = [random.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]
    for batch in (*([one] for one in images), images):
        inputs = ours.inputs(batch)
        expected = processor(batch, return_tensors="np", input_data_format="channels_last")
        assert set(inputs) == set(expected)
        assert inputs["pixel_values"].dtype == np.float32
        for key, value in inputs.items():
            np.testing.assert_array_equal(value, expected[key])
        shapes |= {tuple(shape) for shape in inputs["spatial_shapes"].tolist()}
    assert len(shapes) > 4 or name == "one patch"


@pytest.mark.parametrize("settings", [{"patch_size": 0}, {"max_num_patches": "many"}], ids=str)
def test_settings_that_are_refused(settings, tmp_path):
    kind = {"image_processor_type": "Siglip2ImageProcessor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(kind | settings))
    with pytest.raises(UnsupportedError, match="are not supported; expected numbers from 1"):
        Images(tmp_path)
