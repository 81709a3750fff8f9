"""Boxes cut out of images against transformers' processor, which uses SciPy, to the last bit."""

import json

import numpy as np
import pytest
import transformers
from PIL import Image

from txexport.errors import UnsupportedError
from txexport.runtime.preprocessing.images import Images

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (7, 9)]
SETTINGS = {
    "usual": {"size": {"height": 48, "width": 36}},
    "wide, in other units": {"size": {"height": 21, "width": 90}, "normalize_factor": 111.0},
    "bytes": {"size": {"height": 40, "width": 40}, "do_rescale": False, "do_normalize": False},
}


def boxes_in(height, width, random):
    """Boxes left, top, width and height: all of it, a part, one that is too high and one beyond its edges."""
    part = random.uniform(0, 0.5, 4) * [width, height, width, height]
    return [
        [0.0, 0.0, float(width), float(height)],
        [*map(float, part)],
        [width / 3, 0.0, 2.5, float(height)],
        [-width / 2, height / 2, 2.0 * width, height / 1.7],
    ]


@pytest.mark.parametrize("name", SETTINGS)
def test_parts_are_those_of_scipy(name, tmp_path):
    processor, random = transformers.VitPoseImageProcessorPil(**SETTINGS[name]), np.random.default_rng(3)
    processor.save_pretrained(tmp_path)
    ours = Images(tmp_path)
    for height, width in SIZES:
        image = Image.fromarray(random.integers(0, 256, (height, width, 3), np.uint8))
        boxes = boxes_in(height, width, random)
        expected = processor(image, boxes=[boxes], return_tensors="np").pixel_values
        values = ours.boxed_values(image, [tuple(box) for box in boxes])
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, expected)
        assert np.ptp(values[0]) > 0


@pytest.mark.parametrize(
    "settings",
    [{"do_affine_transform": False}, {"normalize_factor": 0}, {"size": {"shortest_edge": 3}}],
    ids=str,
)
def test_settings_that_are_refused(settings, tmp_path):
    kind = {"image_processor_type": "VitPoseImageProcessor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(kind | settings))
    with pytest.raises(UnsupportedError, match="are not supported; expected a height and a width of 2"):
        Images(tmp_path)
