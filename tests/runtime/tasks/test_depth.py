"""Depths of images: against the pipeline of transformers, and the picture of them."""

from dataclasses import dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers.rows import OVER_DINOV2
from PIL import Image

import txexport
from txexport.errors import InputError
from txexport.runtime.drawn_depth import shaded
from txexport.runtime.tasks.depth import bicubic, shades

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (7, 9), (53, 37)]
ANYTHING = "depth_anything", "DepthAnythingForDepthEstimation"
FITTED = {"size": {"height": 42, "width": 42}, "keep_aspect_ratio": True, "ensure_multiple_of": 6}
# As facebook/dpt-dinov2-small-nyu, padded around to whole patches.
PADDED = {
    **{"do_resize": False, "do_rescale": False, "do_pad": True, "size_divisor": 6},
    **{"image_mean": [123.675, 116.28, 103.53], "image_std": [58.395, 57.12, 57.375]},
}
KINDS = {
    "relative": (*ANYTHING, {}, FITTED),
    "metric": (*ANYTHING, {"depth_estimation_type": "metric", "max_depth": 20}, FITTED),
    "parts of patches": (*ANYTHING, {}, {"size": {"height": 47, "width": 40}}),
    "dpt": ("dpt", "DPTForDepthEstimation", {}, {"size": {"height": 64, "width": 64}}),
    "dpt over DINOv2": ("dpt", "DPTForDepthEstimation", OVER_DINOV2, PADDED),
    "glpn": ("glpn", "GLPNForDepthEstimation", {}, {"size_divisor": 16}),
}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Image files of several sizes; those of the first size stand apart."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.png" for number in range(len(SIZES))]
    for path, (height, width) in zip(paths, SIZES, strict=True):
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    return [str(path) for path in paths]


@dataclass(frozen=True)
class Estimator:
    """A checkpoint, our model of it, and its image processor in transformers."""

    folder: Path
    model: txexport.Model
    processor: Any


@pytest.fixture(scope="module", params=KINDS)
def estimator(request, tmp_path_factory):
    folder, (*kind, config, settings) = tmp_path_factory.mktemp("depth"), KINDS[request.param]
    tiny_checkpoint.save(folder / "in", *kind, **config)
    name = "GLPNImageProcessorPil" if kind[0] == "glpn" else "DPTImageProcessorPil"
    processor = getattr(transformers, name)(**settings)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    return Estimator(folder / "in", txexport.load(folder / "out", device="cpu"), processor)


@pytest.mark.parametrize("batch_size", [4, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 10))])
def test_depth_equals_the_pipeline(batch_size, estimator, photographs):
    """In batches too, at the size of each image."""
    steps: list = []
    # GLPN's processor makes nothing of images that are smaller than what it rounds to.
    wide = [min(size) >= (getattr(estimator.processor, "size_divisor", None) or 1) for size in SIZES]
    photographs, sizes = ([*compress(values, wide)] for values in (photographs, SIZES))
    ours = estimator.model.depth(
        photographs, batch_size=batch_size, progress=lambda *counts: steps.append(counts)
    )
    original = transformers.AutoModelForDepthEstimation.from_pretrained(estimator.folder).eval()
    pipeline = transformers.pipeline("depth-estimation", model=original, image_processor=estimator.processor)
    for answer, path, size in zip(ours, photographs, sizes, strict=True):
        expected = pipeline(path)
        depths, levels = expected["predicted_depth"].numpy(), np.asarray(expected["depth"], int)
        assert answer["predicted_depth"].shape == answer["depth"].shape == size
        assert (answer["predicted_depth"].dtype, answer["depth"].dtype) == (np.float32, np.uint8)
        assert np.ptp(depths) > 0.01
        assert np.abs(answer["predicted_depth"] - depths).max() <= 1e-5 * max(1, np.abs(depths).max())
        apart = np.abs(answer["depth"] - levels)
        assert apart.max() <= 1  # fractions of levels are cut off
        assert apart.mean() < 0.01
    assert steps[-1] == (len(sizes), len(sizes))
    assert len(sizes) >= 9


def test_one_image_has_one_answer(estimator, photographs):
    one, [same] = (estimator.model.depth(images) for images in (photographs[1], photographs[1:2]))
    assert np.array_equal(one["predicted_depth"], same["predicted_depth"])
    assert estimator.model.depth([]) == []


def test_a_rotated_photograph_has_depths_of_what_a_person_sees(estimator, photographs, tmp_path):
    image, exif = Image.open(photographs[0]), Image.Exif()
    exif[0x0112] = 6  # to be rotated by a quarter
    image.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    turned, upright = estimator.model.depth(tmp_path / "turned.png"), estimator.model.depth(image)
    assert np.array_equal(turned["depth"], upright["depth"])


def test_an_image_that_is_too_narrow(estimator):
    if getattr(estimator.processor, "keep_aspect_ratio", False):
        with pytest.raises(InputError, match="would be resized to 0 x 42; it is too narrow"):
            estimator.model.depth(np.zeros((500, 19, 3), np.uint8))


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (30, 42), (61, 18), (300, 2)])
@pytest.mark.parametrize("count", [(1, 1), (2, 9), (30, 42)])
def test_bicubic_is_that_of_pytorch(count, size):
    values = np.random.default_rng(1).standard_normal(count, np.float32)
    expected = torch.nn.functional.interpolate(torch.from_numpy(values)[None, None], size, mode="bicubic")
    assert np.abs(bicubic(values, *size) - expected[0, 0].numpy()).max() < 1e-5


def test_equal_depths_are_of_one_level():
    assert (shades(np.full((3, 4), 7, np.float32)) == 0).all()
    assert shades(np.array([[1, 2, 3]], np.float32)).tolist() == [[0, 127, 255]]


def test_greater_depths_are_drawn_brighter():
    picture = np.asarray(shaded(np.arange(256, dtype=np.uint8).reshape(16, 16)), int)
    assert picture.shape == (16, 16, 3)
    assert (np.diff(picture.reshape(256, 3) @ [0.3, 0.59, 0.11]) > 0).all()
