"""The labels of pixels: against the pipeline of transformers, and the picture of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers.photographs import write_photographs
from PIL import Image

import txexport
from txexport.errors import InputError
from txexport.runtime.drawn_segments import coloured
from txexport.runtime.tasks.segmentation import likeliest

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (7, 9), (53, 37)]
LABELS = ["sky", "tree", "road", "person", "wall"]
SQUARE = {"size": {"height": 64, "width": 64}}
PYRAMID = {"num_hidden_layers": 5, "out_indices": [1, 2, 4, 5]}
# Model type, class, changes of its sizes, image processor and its settings.
SEGMENTERS = {
    "square": ("segformer", "Segformer", {}, "Segformer", SQUARE),
    "oblong, labels from 1": (
        "segformer",
        "Segformer",
        {},
        "Segformer",
        {"size": {"height": 41, "width": 97}, "do_reduce_labels": True},
    ),
    "fused maps": (
        "dpt",
        "DPT",
        {"use_batch_norm_in_fusion_residual": True, "fusion_hidden_size": 12},
        "DPT",
        SQUARE,
    ),
    "pyramid": (
        "beit",
        "Beit",
        PYRAMID,
        "Beit",
        {"size": {"height": 30, "width": 30}, "do_reduce_labels": True},
    ),
    "pyramid of ConvNeXt": (
        "upernet",
        "UperNet",
        {},
        "Segformer",
        {"size": {"height": 41, "width": 97}, "do_reduce_labels": True},
    ),
    "pyramid of data2vec": (
        "data2vec-vision",
        "Data2VecVision",
        PYRAMID,
        "Beit",
        {"size": {"height": 36, "width": 36}, "do_center_crop": True, "crop_size": 30},
    ),
}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Image files of several sizes; those of the first size stand apart."""
    return write_photographs(tmp_path_factory.mktemp("images"), SIZES)


@dataclass(frozen=True)
class Segmenter:
    """A checkpoint, our model of it, and its image processor in transformers."""

    folder: Path
    model: txexport.Model
    processor: Any


@pytest.fixture(scope="module", params=SEGMENTERS)
def segmenter(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("segments")
    labels = {"id2label": dict(enumerate(LABELS)), "label2id": {name: n for n, name in enumerate(LABELS)}}
    model_type, name, sizes, kind, settings = SEGMENTERS[request.param]
    tiny_checkpoint.save(folder / "in", model_type, f"{name}ForSemanticSegmentation", **labels, **sizes)
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(**settings)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    return Segmenter(folder / "in", txexport.load(folder / "out", device="cpu"), processor)


@pytest.mark.parametrize("batch_size", [1, 4, 10])
def test_segments_equal_the_pipeline(batch_size, segmenter, photographs):
    """In batches too, at the size of each image."""
    steps: list = []
    ours = segmenter.model.segment(
        photographs, batch_size=batch_size, progress=lambda *counts: steps.append(counts)
    )
    original = transformers.AutoModelForSemanticSegmentation.from_pretrained(segmenter.folder).eval()
    pipeline = transformers.pipeline(
        "image-segmentation", model=original, image_processor=segmenter.processor
    )
    seen = set()
    for answer, path, size in zip(ours, photographs, SIZES, strict=True):
        expected = pipeline(path)
        assert [one["label"] for one in answer] == [one["label"] for one in expected]
        assert all(one["score"] is None for one in answer)
        for one, theirs in zip(answer, expected, strict=True):
            assert one["mask"].shape == size
            assert one["mask"].dtype == bool
            assert (one["mask"] != (np.asarray(theirs["mask"]) == 255)).mean() <= 1e-3
        assert (sum(one["mask"].astype(int) for one in answer) == 1).all()
        seen |= {one["label"] for one in answer}
    assert len(seen) > 2
    assert steps[-1] == (len(SIZES), len(SIZES))


def test_one_image_has_one_answer(segmenter, photographs):
    one, [same] = (segmenter.model.segment(images) for images in (photographs[1], photographs[1:2]))
    assert [part["label"] for part in one] == [part["label"] for part in same]
    assert all(np.array_equal(a["mask"], b["mask"]) for a, b in zip(one, same, strict=True))
    assert segmenter.model.segment([]) == []


def test_a_rotated_photograph_is_segmented_as_a_person_sees_it(segmenter, photographs, tmp_path):
    image, exif = Image.open(photographs[0]), Image.Exif()
    exif[0x0112] = 6  # to be rotated by a quarter
    image.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    turned, upright = segmenter.model.segment(tmp_path / "turned.png"), segmenter.model.segment(image)
    assert all(np.array_equal(a["mask"], b["mask"]) for a, b in zip(turned, upright, strict=True))


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (30, 42), (61, 18), (300, 2)])
@pytest.mark.parametrize("count", [(1, 1), (2, 9), (30, 42)])
def test_pixels_are_interpolated_as_in_pytorch(count, size):
    """The best label has a score within rounding of the best one, in bands of rows too."""
    logits = np.random.default_rng(1).standard_normal((4, *count), np.float32)
    scores = torch.nn.functional.interpolate(torch.from_numpy(logits)[None], size, mode="bilinear")[0]
    best = torch.from_numpy(likeliest(logits, *size))
    chosen = scores.gather(0, best[None])[0]
    assert (scores.amax(0) - chosen).max() < 1e-5
    assert (best != scores.argmax(0)).float().mean() < 0.01


def test_scores_are_interpolated_in_bands(monkeypatch):
    logits = np.random.default_rng(1).standard_normal((4, 5, 6), np.float32)
    expected = likeliest(logits, 31, 17)
    monkeypatch.setattr("txexport.runtime.tasks.segmentation.BAND", 200)
    assert np.array_equal(likeliest(logits, 31, 17), expected)


def test_parts_are_drawn_in_their_own_colours():
    image, masks = Image.new("RGB", (40, 30)), np.zeros((2, 30, 40), bool)
    masks[0, :, :20], masks[1, :, 20:] = True, True
    parts = [{"label": f"label {n}", "score": None, "mask": mask} for n, mask in enumerate(masks)]
    pixels = np.asarray(coloured(image, parts))
    assert pixels.shape[1] == 40
    assert pixels.shape[0] > 30  # a legend
    halves = [pixels[:30, :20], pixels[:30, 20:]]
    assert all((half == half[0, 0]).all() for half in halves)
    assert (halves[0][0, 0] != halves[1][0, 0]).any()


def test_a_classifier_segments_nothing(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "segformer", "SegformerForImageClassification")
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    with pytest.raises(InputError, match="image-segmentation"):
        txexport.load(tmp_path / "out", device="cpu").segment(np.zeros((5, 5, 3), np.uint8))
