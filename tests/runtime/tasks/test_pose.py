"""Points of bodies against transformers' processor and model, over photographs of odd sizes."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from PIL import Image

import txexport
from txexport.contracts import roles
from txexport.errors import InputError
from txexport.runtime.drawn_pose import drawn
from txexport.runtime.tasks.keypoints import refined

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (7, 9)]
POINTS = ["nose", "eye", "ear", "hand", "knee"]
KINDS = {"simple": {}, "classic": {"use_simple_decoder": False}}


@dataclass(frozen=True)
class Estimator:
    """Our model, the original and its processor."""

    model: txexport.Model
    original: Any
    processor: Any


@pytest.fixture(scope="module", params=KINDS)
def estimator(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pose")
    named = {"id2label": dict(enumerate(POINTS)), "label2id": {name: n for n, name in enumerate(POINTS)}}
    name = "VitPoseForPoseEstimation"
    tiny_checkpoint.save(folder / "in", "vitpose", name, **named, num_labels=5, **KINDS[request.param])
    processor = transformers.VitPoseImageProcessorPil(size={"height": 48, "width": 36})
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    original = transformers.VitPoseForPoseEstimation.from_pretrained(folder / "in").eval()
    return Estimator(txexport.load(folder / "out", device="cpu"), original, processor)


@pytest.fixture(scope="module")
def images():
    random = np.random.default_rng(5)
    coarse = [Image.fromarray(random.integers(0, 256, (5, 4, 3), np.uint8)) for _ in SIZES]
    return [one.resize((width, height)) for one, (height, width) in zip(coarse, SIZES, strict=True)]


def bounds(width, height):
    """Boxes left, top, right and bottom: all of an image, a part, and one beyond its edges."""
    whole_one = [0.0, 0.0, float(width), float(height)]
    return [whole_one, [1.0, 2.0, width - 2.0, height - 1.0], [-3.0, height / 2, width / 2, height + 9.0]]


def sized(boxes):
    return [[left, top, right - left, bottom - top] for left, top, right, bottom in boxes]


def refined_by_transformers(estimator, boxes, heat):
    heatmaps = SimpleNamespace(heatmaps=torch.from_numpy(heat))
    [poses] = estimator.processor.post_process_pose_estimation(heatmaps, boxes=[sized(boxes)])
    return poses


@pytest.mark.parametrize("batch_size", [1, 2, 8])
def test_points_equal_the_processor_s(batch_size, estimator, images):
    """Of the same heat maps they are equal; of the original's, as near as the maps are."""
    steps: list = []
    of_images = [bounds(*image.size) for image in images]
    answers = estimator.model.pose(
        images, of_images, batch_size=batch_size, progress=lambda *counts: steps.append(counts)
    )
    seen = 0
    for answer, image, boxes in zip(answers, images, of_images, strict=True):
        inputs = estimator.processor(image, boxes=[sized(boxes)], return_tensors="pt")
        with torch.no_grad():
            expected = estimator.original(**inputs).heatmaps.numpy()
        session = estimator.model.bundle.sessions[roles.MODEL]
        parts = [
            session.run({"pixel_values": inputs["pixel_values"].numpy()[first : first + batch_size]})
            for first in range(0, len(boxes), batch_size)
        ]
        heat = np.concatenate([part["heatmaps"] for part in parts])
        assert np.abs(heat - expected).max() < 1e-4 * max(1, np.abs(expected).max())
        poses = refined_by_transformers(estimator, boxes, heat)
        originals = refined_by_transformers(estimator, boxes, expected)
        for one, theirs, box, by_original in zip(answer, poses, boxes, originals, strict=True):
            assert [*one["box"].values()] == box
            assert [point["label"] for point in one["keypoints"]] == POINTS
            scores = np.array([point["score"] for point in one["keypoints"]], np.float32)
            np.testing.assert_array_equal(scores, theirs["scores"].numpy())
            found_ones = scores > 0  # another point's place depends in transformers on the maps beside it
            points = np.array([[point["x"], point["y"]] for point in one["keypoints"]], np.float32)
            np.testing.assert_array_equal(points[found_ones], theirs["keypoints"].numpy()[found_ones])
            seen += found_ones.sum()
            assert np.abs(scores - by_original["scores"].numpy()).max() < 1e-4
    assert seen > 100
    assert steps[-1] == (len(images), len(images))


def test_boxes_of_a_detector_and_none(estimator, images):
    """A box may be one of `detect`; without boxes, the whole image is one."""
    image = images[0]
    box = dict(zip(("xmin", "ymin", "xmax", "ymax"), (0, 0, *image.size), strict=True))
    [unboxed], [same] = estimator.model.pose(image), estimator.model.pose(image, [box])
    assert unboxed == same
    assert estimator.model.pose([image, images[1]], [None, [[0, 0, 5, 5]]])[0] == [unboxed]
    assert estimator.model.pose([]) == []
    sure = sorted(point["score"] for point in unboxed["keypoints"])[2]
    [fewer] = estimator.model.pose(image, threshold=sure)
    assert [point["label"] for point in fewer["keypoints"]] == [
        point["label"] for point in unboxed["keypoints"] if point["score"] > sure
    ]
    assert len(fewer["keypoints"]) == 2


REFUSED = {
    "expected \\[left, top, right, bottom\\]": [[1, 2, 3]],
    "expected left below right": [[5, 0, 1, 9]],
    "at most 16777216 pixels": [[0, 0, 1e9, 9]],
    "expected one or more": [],
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_boxes(message, estimator, images):
    with pytest.raises(InputError, match=message):
        estimator.model.pose(images[0], REFUSED[message])


def test_invalid_arguments(estimator, images):
    with pytest.raises(InputError, match="expected those of each of 2 images"):
        estimator.model.pose(images[:2], [[[0, 0, 3, 3]]])
    with pytest.raises(InputError, match="threshold is 'high', expected a number or None"):
        estimator.model.pose(images[0], threshold="high")


@pytest.mark.parametrize("size", [(5, 7), (16, 12), (64, 48)])
def test_places_between_pixels_are_those_of_transformers(size):
    """Of spots anywhere in a map, and at its edges."""
    height, width = size
    random, rows, columns = np.random.default_rng(1), *np.mgrid[:height, :width]
    heat = np.stack(
        [
            np.exp(-((columns - x) ** 2 + (rows - y) ** 2) / 4) + 0.01 * random.random(size)
            for x, y in zip(random.uniform(0, width, 9), random.uniform(0, height, 9), strict=True)
        ]
    ).astype(np.float32)
    points, scores = refined(heat)
    # A box as large as the map, in its own pixels, leaves the places as they are.
    middle, scale = np.zeros((1, 2), np.float32), np.array([[width - 1, height - 1]], np.float32) / 200
    processor = transformers.VitPoseImageProcessorPil()
    theirs, heights = processor.keypoints_from_heatmaps(heat[None], middle, scale)
    expected = theirs[0] + np.array([width - 1, height - 1], np.float32) * 0.5
    assert np.abs(points - expected).max() < 1e-4 * max(size)
    np.testing.assert_array_equal(scores, heights[0, :, 0])
    highest = np.stack(np.unravel_index(heat.reshape(9, -1).argmax(1), size)[::-1], axis=1)
    assert np.abs(points - highest).max() > 0.1


def test_a_pose_is_drawn_with_its_edges():
    image = Image.new("RGB", (40, 30))
    points = [{"label": str(n), "score": 0.9, "x": 5.0 + 10 * n, "y": 10.0} for n in range(3)]
    points[2]["score"] = 0.0
    box = {"xmin": 0.0, "ymin": 0.0, "xmax": 40.0, "ymax": 30.0}
    poses = [{"box": box, "keypoints": points}]
    pixels = np.asarray(drawn(image, poses, [[0, 1], [1, 2]], ["0", "1", "2"]))
    assert pixels[10, 10].any()  # between the first two
    assert not pixels[10, 20].any()  # the third was not found
    assert not np.asarray(image).any()
