"""The masks of everything in an image, beside the pipeline of transformers."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from click.testing import CliRunner
from PIL import Image
from transformers.models.sam import image_processing_pil_sam

import txexport
from txexport.cli.main import main
from txexport.errors import InputError

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150)]
SIDE, GRID = 60, 5


def photograph(height, width):
    coarse = np.random.default_rng(height * width).integers(0, 256, (5, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height))


def suppressed(boxes, scores, idxs, iou_threshold):
    """The boxes that torchvision's batched_nms keeps, of one class."""
    chosen = []
    for number in torch.argsort(scores, descending=True, stable=True).tolist():
        for other in chosen:
            low = torch.maximum(boxes[number, :2], boxes[other, :2])
            high = torch.minimum(boxes[number, 2:], boxes[other, 2:])
            shared = (high - low).clamp(min=0).prod()
            areas = [(boxes[one, 2:] - boxes[one, :2]).prod() for one in (number, other)]
            if shared / (areas[0] + areas[1] - shared) > iou_threshold:
                break
        else:
            chosen.append(number)
    return torch.tensor(chosen, dtype=torch.long)


@pytest.fixture
def torchvision(monkeypatch):
    """The only function of torchvision that the pipeline needs."""
    names = ("torchvision", "torchvision.ops", "torchvision.ops.boxes")
    for name in names:
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name) or ModuleType(name))
    monkeypatch.setattr(sys.modules[names[-1]], "batched_nms", suppressed, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sam")
    original = tiny_checkpoint.build("sam", "SamModel")
    with torch.no_grad():  # logits of about 8, which a shift by 1 leaves, as those of a trained model
        for network in original.mask_decoder.output_hypernetworks_mlps:
            network.proj_out.weight *= 800
            network.proj_out.bias *= 800
    original.save_pretrained(folder / "in")
    sides = {"height": SIDE, "width": SIDE}
    transformers.SamImageProcessorPil(size={"longest_edge": SIDE}, pad_size=sides).save_pretrained(
        folder / "in"
    )
    txexport.export(folder / "in", folder / "out", only="native")
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return txexport.load(folder / "out", device="cpu")


LEAST = {"min_score": 0.0, "min_stability": 0.2}


@pytest.mark.parametrize(("overlap", "least"), [(0.7, 1), (0.97, 1), (1, 30)])
@pytest.mark.parametrize("size", SIZES, ids="{0[0]} x {0[1]}".format)
def test_masks_are_those_of_the_pipeline(size, overlap, least, folder, model, torchvision):
    processor = transformers.SamImageProcessorPil.from_pretrained(folder / "in")
    processor.post_process_for_mask_generation = image_processing_pil_sam._post_process_for_mask_generation
    original = transformers.SamModel.from_pretrained(folder / "in").eval()
    judge = transformers.pipeline("mask-generation", model=original, image_processor=processor)
    image = photograph(*size)
    answers = model.all_masks(image, points_per_side=GRID, overlap=overlap, batch_size=7, **LEAST)
    expected = judge(
        image,
        points_per_crop=GRID,
        points_per_batch=7,
        pred_iou_thresh=1e-9,
        stability_score_thresh=LEAST["min_stability"],
        crops_nms_thresh=overlap,
    )
    assert len(answers) == len(expected["masks"]) >= least
    for ours, mask, score in zip(answers, expected["masks"], expected["scores"], strict=True):
        assert abs(ours["score"] - float(score)) < 1e-5
        assert ours["mask"].shape == mask.shape == size
        assert (ours["mask"] != mask).mean() < 1e-3


def test_several_images_and_progress(model):
    steps: list = []
    images = [photograph(*size) for size in SIZES[:2]]
    options = LEAST | {"points_per_side": 3, "progress": lambda *counts: steps.append(counts)}
    both = model.all_masks(images, batch_size=4, **options)
    assert [[one["score"] for one in answer] for answer in both] == [
        [one["score"] for one in model.all_masks(image, batch_size=4, **options)] for image in images
    ]
    assert steps[:2] == [(1, 2), (2, 2)]
    assert model.all_masks(images[0], points_per_side=3, min_score=1.0) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"points_per_side": 0}, "points_per_side is 0, expected"),
        ({"points_per_side": 2000}, "points_per_side is 2000, expected at most 1024"),
        ({"min_score": 2}, "min_score is 2, expected a number from 0 to 1"),
        ({"min_stability": "x"}, "min_stability is 'x', expected a number"),
        ({"overlap": True}, "overlap is True, expected a number"),
    ],
)
def test_numbers_that_are_none(options, message, model):
    with pytest.raises(InputError, match=message):
        model.all_masks(photograph(30, 40), **options)


def test_on_the_command_line(model, tmp_path):
    photograph(40, 50).save(tmp_path / "a.png")
    options = ["--points-per-side", "3", "--min-score", "0", "--min-stability", "0.2", "--json"]
    arguments = ["all-masks", str(model.folder), str(tmp_path / "a.png"), *options]
    result = CliRunner().invoke(main, [*arguments, "--draw", str(tmp_path / "drawn.png")])
    assert result.exit_code == 0, result.output
    [row] = [json.loads(line) for line in result.output.splitlines()]
    expected = model.all_masks(tmp_path / "a.png", points_per_side=3, **LEAST)
    assert [one["score"] for one in row["masks"]] == pytest.approx([one["score"] for one in expected])
    assert Image.open(tmp_path / "drawn.png").size == (50, 40)
