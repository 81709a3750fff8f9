"""Objects of RF-DETR with masks: against the pipeline of transformers, and the library's processor."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers import rf_detr_processor
from helpers.photographs import write_photographs
from PIL import Image

import txexport
from txexport.errors import InputError, UnsupportedError
from txexport.runtime.preprocessing.images import Images
from txexport.runtime.tasks.query_segments import Rules, objects

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (31, 150), (7, 9), (53, 37)]
SIDES = {"height": 48, "width": 64}
LABELS = 70  # above 64, PyTorch's topk sorts the likeliest pairs of a query and a label


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Image files of several sizes; those of the first size stand apart."""
    return write_photographs(tmp_path_factory.mktemp("images"), SIZES)


@dataclass(frozen=True)
class Segmenter:
    """Our model of a checkpoint, and the original with its processor."""

    folder: Path
    model: txexport.Model
    original: Any
    processor: Any


@pytest.fixture(scope="module")
def segmenter(tmp_path_factory):
    folder = tmp_path_factory.mktemp("segmenter")
    original = tiny_checkpoint.build("rf_detr", "RfDetrForInstanceSegmentation", 1, num_labels=LABELS)
    with torch.no_grad():  # masks that differ from query to query, and scores that are not all alike
        original.query_features_proj.weight *= 8
        original.model.class_embed.weight *= 4
    original.save_pretrained(folder / "in")
    processor = rf_detr_processor.processor(size=SIDES)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    return Segmenter(folder / "in", txexport.load(folder / "out", device="cpu"), original, processor)


@pytest.mark.parametrize("rules", [{"threshold": 0.6}, {"threshold": 0.5, "mask_threshold": 0.1}])
@pytest.mark.parametrize("batch_size", [1, 9])
def test_segments_equal_the_pipeline(rules, batch_size, segmenter, photographs):
    """In batches too, at the size of each image: a likelier object covers those behind it."""
    ours = segmenter.model.segment(photographs, batch_size=batch_size, **rules)
    pipeline = transformers.pipeline(
        "image-segmentation", model=segmenter.original, image_processor=segmenter.processor
    )
    count, covered = 0, 0
    for answer, path, size in zip(ours, photographs, SIZES, strict=True):
        expected = pipeline(path, **rules)
        assert [one["label"] for one in answer] == [one["label"] for one in expected]
        for one, theirs in zip(answer, expected, strict=True):
            assert abs(one["score"] - theirs["score"]) < 1e-5
            assert one["mask"].shape == size
            assert (one["mask"] != (np.asarray(theirs["mask"]) == 255)).mean() <= 2e-3
        count += len(answer)
        covered += sum(one["mask"].mean() for one in answer)
    assert count > 30
    assert 1 < covered < len(SIZES)


def test_outputs_equal_the_original_s(segmenter, photographs):
    """Of pixels of equal values, in a batch with a mask."""
    pixels = Images(segmenter.folder).pixels([Image.open(photographs[0]), Image.open(photographs[8])])
    with torch.no_grad():
        expected = segmenter.original(torch.from_numpy(pixels))
    outputs = segmenter.model.run(pixel_values=pixels, pixel_mask=np.ones((2, 48, 64), np.int64))
    for name in ("logits", "pred_boxes", "pred_masks"):
        wanted = expected[name].numpy()
        assert np.abs(outputs[name] - wanted).max() < 5e-6 * max(1, np.abs(wanted).max())


def test_kinds(segmenter, photographs):
    with pytest.raises(InputError, match="kind is 'panoptic', and this model segments by instance"):
        segmenter.model.segment(photographs[0], kind="panoptic")


def test_objects_without_pixels_of_their_own_are_left_out():
    classes = np.array([[2.0, -9.0], [1.0, 0.5], [-9.0, -9.0]], np.float32)
    masks = np.full((3, 2, 2), -1.0, np.float32)
    masks[0, 0], masks[1, :, 0] = 1.0, 1.0
    first, second = objects(classes, masks, 2, 2, Rules(0.6, 0.5, 0.0))
    assert (first.label, second.label) == (0, 0)
    assert first.mask.tolist() == [[True, True], [False, False]]
    assert second.mask.tolist() == [[False, False], [True, False]]
    [only] = objects(classes[[0, 0]], masks[[0, 0]], 2, 2, Rules(0.6, 0.5, 0.0))
    assert only.score == round(float(1 / (1 + np.exp(-2.0))), 6)


@pytest.mark.parametrize("settings", [{"do_rescale": False}, {"resample": 3}])
def test_settings_of_another_resizing(settings, tmp_path):
    rf_detr_processor.processor(size=SIDES).save_pretrained(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))
    with pytest.raises(UnsupportedError, match="RfDetrImageProcessor needs do_rescale, and a resample of 2"):
        Images(tmp_path)


@pytest.mark.parametrize(
    "settings",
    [{}, {"do_normalize": False}, {"do_resize": False}, {"size": {"shortest_edge": 33, "longest_edge": 70}}],
)
def test_pixels_equal_the_processor_s(settings, tmp_path, photographs):
    """Up to rounding: PyTorch adds the four pixels around in another order."""
    processor = rf_detr_processor.processor(**{"size": SIDES} | settings)
    processor.save_pretrained(tmp_path)
    for path in photographs:
        expected = processor(Image.open(path), return_tensors="np").pixel_values
        np.testing.assert_allclose(Images(tmp_path).pixels(Image.open(path)), expected, rtol=0, atol=2e-6)
