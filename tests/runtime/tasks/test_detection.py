"""Objects in images: against the pipeline of transformers, and the picture of them."""

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers import rf_detr_processor
from PIL import Image

import txexport
from txexport.errors import InputError
from txexport.runtime.drawn_boxes import drawn
from txexport.runtime.preprocessing.images import Images
from txexport.runtime.tasks.detection import corners_of

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (53, 37)]
SIDES = {"height": 48, "width": 64}  # of a network whose last map has a place for 16 x 16 pixels
EDGES = {"shortest_edge": 48, "longest_edge": 96}
LABELS = {"id2label": {number: f"kind {number}" for number in range(5)}}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Image files of several sizes; those of the first size stand apart."""
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.png" for number in range(len(SIZES))]
    for path, (height, width) in zip(paths, SIZES, strict=True):
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    return [str(path) for path in paths]


@dataclass(frozen=True)
class Detector:
    """A checkpoint, our model of it, and its image processor in transformers."""

    folder: Path
    model: txexport.Model
    processor: Any

    def original(self) -> Any:
        """The original in PyTorch."""
        return transformers.AutoModelForObjectDetection.from_pretrained(self.folder).eval()


KINDS = {
    "yolos": ("YolosForObjectDetection", transformers.YolosImageProcessorPil),
    "detr": ("DetrForObjectDetection", transformers.DetrImageProcessorPil),
    "table-transformer": ("TableTransformerForObjectDetection", transformers.DetrImageProcessorPil),
    "conditional_detr": ("ConditionalDetrForObjectDetection", transformers.ConditionalDetrImageProcessorPil),
    "deformable_detr": ("DeformableDetrForObjectDetection", transformers.DeformableDetrImageProcessorPil),
    "rt_detr": ("RTDetrForObjectDetection", transformers.RTDetrImageProcessorPil),
    "rt_detr_v2": ("RTDetrV2ForObjectDetection", transformers.RTDetrImageProcessorPil),
    "d_fine": ("DFineForObjectDetection", transformers.RTDetrImageProcessorPil),
    "dab-detr": ("DabDetrForObjectDetection", transformers.ConditionalDetrImageProcessorPil),
    "lw_detr": ("LwDetrForObjectDetection", transformers.DeformableDetrImageProcessorPil),
    "rf_detr": ("RfDetrForObjectDetection", rf_detr_processor.processor),
}
OF_ONE_SIZE = ("rt_detr", "rt_detr_v2", "d_fine", "lw_detr", "rf_detr")

# With more pairs of a query and a label than the original keeps.
MORE = {
    name: {"num_queries": 30}
    for name in ("conditional_detr", "deformable_detr", "dab-detr", "lw_detr", "rf_detr")
}


@pytest.fixture(scope="module", params=KINDS)
def detector(request, tmp_path_factory):
    folder, (architecture, kind) = tmp_path_factory.mktemp("detector"), KINDS[request.param]
    tiny_checkpoint.save(folder / "in", request.param, architecture, **LABELS, **MORE.get(request.param, {}))
    processor = kind(size=SIDES if request.param in OF_ONE_SIZE else EDGES)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    return Detector(folder / "in", txexport.load(folder / "out", device="cpu"), processor)


def distance(one, other):
    """Pixels between an object of ours and one of the pipeline, many if it is another object."""
    score = abs(one["score"] - other["score"])
    if score > 1e-5 or one["label"] != other["label"]:
        return math.inf
    return sum(abs(int(one["box"][edge]) - pixels) for edge, pixels in other["box"].items()) + score


@pytest.mark.parametrize("batch_size", [1, 4, 9])
def test_detect_equals_the_pipeline(batch_size, detector, photographs):
    """In batches too: an image is never padded to the size of another."""
    steps: list = []
    ours = detector.model.detect(
        photographs, threshold=0.2, batch_size=batch_size, progress=lambda *counts: steps.append(counts)
    )
    pipeline = transformers.pipeline(
        "object-detection", model=detector.original(), image_processor=detector.processor
    )
    count = 0
    for objects, path in zip(ours, photographs, strict=True):
        expected = pipeline(path, threshold=0.2)
        assert [one["score"] for one in objects] == sorted([one["score"] for one in objects], reverse=True)
        assert len(objects) == len(expected)
        for one in objects:  # the order of equal scores differs
            nearest = min(expected, key=partial(distance, one))
            assert distance(one, nearest) < math.inf
            for edge, pixels in nearest["box"].items():
                assert abs(one["box"][edge] - pixels) < 1 + 1e-3  # the pipeline cuts fractions off
            expected.remove(nearest)
        count += len(objects)
    assert count > 20
    assert steps[-1] == (9, 9)


def test_boxes_equal_the_processor_s(detector, photographs):
    """With fractions of pixels, as post_process_object_detection has them."""
    original = detector.original()
    image = Image.open(photographs[3])
    with torch.no_grad():
        inputs = detector.processor(image, return_tensors="pt")
        pixels = torch.from_numpy(Images(detector.folder).pixels(image))
        assert (inputs["pixel_values"] - pixels).abs().max() < 2e-6  # RF-DETR's are equal up to rounding
        outputs = original(**inputs | {"pixel_values": pixels})
    [expected] = detector.processor.post_process_object_detection(outputs, 0.0, [(image.height, image.width)])
    objects = detector.model.detect(image, threshold=0)
    order = np.argsort(-expected["scores"].numpy(), kind="stable")
    boxes = np.array([list(one["box"].values()) for one in objects])
    assert np.abs(boxes - expected["boxes"].numpy()[order]).max() < 1e-3
    assert np.abs([one["score"] for one in objects] - expected["scores"].numpy()[order]).max() < 1e-5


def test_a_rotated_photograph_has_boxes_of_what_a_person_sees(detector, photographs, tmp_path):
    image, exif = Image.open(photographs[0]), Image.Exif()
    exif[0x0112] = 6  # to be rotated by a quarter
    image.rotate(90, expand=True).save(tmp_path / "turned.png", exif=exif)
    assert detector.model.detect(tmp_path / "turned.png", threshold=0.1) == detector.model.detect(
        image, threshold=0.1
    )


@pytest.mark.parametrize("threshold", [-0.1, 1, True, "high", None])
def test_thresholds_that_are_none(threshold, detector, photographs):
    with pytest.raises(InputError, match=r"threshold is .*, expected a number from 0 to below 1"):
        detector.model.detect(photographs, threshold=threshold)


def test_an_image_that_is_too_narrow(detector):
    if not isinstance(detector.processor, transformers.YolosImageProcessorPil):
        return  # it rounds to no multiples
    with pytest.raises(InputError, match="an image of 19 x 500 would be resized to 0 x 96; it is too narrow"):
        detector.model.detect(np.zeros((500, 19, 3), np.uint8))


def test_an_image_processor_for_other_sizes(tmp_path):
    """Maps of neighbouring sizes would not fit one another; the original fails as well."""
    tiny_checkpoint.save(tmp_path / "in", "rt_detr", **LABELS)
    transformers.RTDetrImageProcessorPil(size={"height": 40, "width": 64}).save_pretrained(tmp_path / "in")
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    with pytest.raises(InputError, match="makes images of 64 x 40, expected multiples of 16; export the ch"):
        model.detect(np.zeros((40, 64, 3), np.uint8))
    txexport.export(tmp_path / "in", tmp_path / "sized", image_size=(48, 64), only="native")
    model = txexport.load(tmp_path / "sized", device="cpu")
    assert len(model.detect(np.zeros((40, 64, 3), np.uint8), threshold=0.0)) == 7


def test_an_image_processor_for_other_windows(tmp_path):
    """Pixels beyond the last patch are not read; patches that fill no windows are refused."""
    tiny_checkpoint.save(tmp_path / "in", "lw_detr", **LABELS)
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    original = transformers.AutoModelForObjectDetection.from_pretrained(tmp_path / "in").eval()
    for height, width in ((43, 66), (44, 64)):
        processor = transformers.DeformableDetrImageProcessorPil(size={"height": height, "width": width})
        image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 40, 3), np.uint8))
        inputs = processor(image, return_tensors="pt")
        processor.save_pretrained(tmp_path / "in")
        txexport.export(tmp_path / "in", tmp_path / "out", only="native", force=True)
        model = txexport.load(tmp_path / "out", device="cpu")
        if height == 43:
            with torch.no_grad():
                scores = original(**inputs).logits.sigmoid().flatten()
            best = scores.sort(descending=True).values.numpy()  # of 7 queries and 5 labels
            assert np.abs([one["score"] for one in model.detect(image, threshold=0)] - best).max() < 1e-5
            continue
        with pytest.raises(RuntimeError, match="shape"):
            original(**inputs)
        with pytest.raises(
            InputError, match="of 64 x 44, expected multiples of 8 or up to 3 pixels more; ex"
        ):
            model.detect(image)


def test_corners_of_boxes():
    boxes = np.array([[0.5, 0.5, 1, 1], [0.25, 0.75, 0.1, 0.2]], np.float32)
    expected = [[0, 0, 200, 100], [40, 65, 60, 85]]
    assert np.allclose(corners_of(boxes, 100, 200), expected)


def test_objects_are_drawn_where_they_are():
    """Edges have the colour of the label; within and beyond, the image is as it was."""
    box = {"xmin": 40.0, "ymin": 50.0, "xmax": 120.0, "ymax": 90.0}
    image = Image.new("RGB", (200, 150), "white")
    picture = np.asarray(drawn(image, [{"label": "cat", "score": 0.9, "box": box}]))
    assert (picture[90, 60:120] == picture[70, 40]).all()
    assert (picture[70, 40] != 255).any()
    assert (picture[60:80, 60:100] == 255).all()
    assert (picture[100:] == 255).all()
    assert (np.asarray(image) == 255).all()
