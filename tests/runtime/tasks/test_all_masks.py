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
from helpers.project import ROOT
from helpers.sam2_processor import suppressed
from PIL import Image
from transformers.models.sam import image_processing_pil_sam

import txexport
from txexport.cli.main import main
from txexport.errors import InputError
from txexport.runtime.tasks.crops import crops

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150)]
SIDE, GRID = 60, 5
STREET = ROOT / "tests/data/street"


def photograph(height, width):
    coarse = np.random.default_rng(height * width).integers(0, 256, (5, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height))


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


@pytest.fixture(scope="module")
def cutter(tmp_path_factory):
    """The small SAM of the guides, whose masks are those of things, and a photograph of a street."""
    folder = tmp_path_factory.mktemp("cutter")
    txexport.export(STREET / "cutter", folder / "out", only="native")
    photo = Image.open(STREET / "street.png").convert("RGB")
    return txexport.load(folder / "out", device="cpu"), photo


# The size, layers, their overlap, and the least number of masks that are found in crops alone.
CROPPED = [
    ((480, 640), 1, 512 / 1500, 1),
    ((399, 501), 1, 512 / 1500, 1),
    ((501, 399), 1, 512 / 1500, 0),
    ((450, 450), 1, 512 / 1500, 0),
    ((333, 640), 1, 512 / 1500, 1),
    ((601, 288), 1, 0.6, 0),
    ((299, 777), 1, 0.6, 1),
    ((521, 640), 2, 512 / 1500, 1),
    ((640, 521), 2, 0.1, 1),
]
QUICKER = ((480, 640), (601, 288))  # wide and high


@pytest.mark.parametrize(
    ("size", "layers", "crop_overlap", "least"),
    [pytest.param(*row, marks=[] if row[0] in QUICKER else [pytest.mark.slow]) for row in CROPPED],
)
def test_masks_in_crops_are_those_of_the_pipeline(size, layers, crop_overlap, least, cutter, torchvision):
    model, photo = cutter
    processor = transformers.SamImageProcessorPil.from_pretrained(STREET / "cutter")
    processor.post_process_for_mask_generation = image_processing_pil_sam._post_process_for_mask_generation
    original = transformers.SamModel.from_pretrained(STREET / "cutter", dtype=torch.float32).eval()
    judge = transformers.pipeline("mask-generation", model=original, image_processor=processor)
    image = photo.resize(size[::-1])
    numbers = {"points_per_side": 5, "min_score": 0.5, "min_stability": 0.5, "overlap": 0.95}
    answers = model.all_masks(image, crop_layers=layers, crop_overlap=crop_overlap, **numbers)
    expected = judge(
        image,
        points_per_crop=5,
        pred_iou_thresh=0.5,
        stability_score_thresh=0.5,
        crops_nms_thresh=0.95,
        crops_n_layers=layers,
        crop_overlap_ratio=crop_overlap,
    )
    assert len(answers) == len(expected["masks"])
    for ours, mask, score in zip(answers, expected["masks"], expected["scores"], strict=True):
        assert abs(ours["score"] - float(score)) < 1e-5
        assert ours["mask"].shape == mask.shape == size
        assert (ours["mask"] != np.asarray(mask)).mean() < 1e-4
    assert len(answers) - len(model.all_masks(image, **numbers)) >= least


@pytest.mark.parametrize("size", [(480, 640), (37, 53), (7, 5), (1, 1), (333, 1000)])
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
@pytest.mark.parametrize("overlap", [0, 0.1, 512 / 1500, 0.7, 0.99])
def test_crops_are_those_of_transformers(size, layers, overlap):
    boxes, numbers = image_processing_pil_sam._generate_per_layer_crops(layers, overlap, size)
    pairs = zip(boxes, numbers, strict=True)
    expected = [(tuple(box), number) for box, number in pairs if box[0] < box[2] and box[1] < box[3]]
    assert [(crop.edges, crop.layer) for crop in crops(*size, layers, overlap)] == expected


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
        ({"crop_layers": 6}, "crop_layers is 6, expected a whole number from 0 to 5"),
        ({"crop_layers": True}, "crop_layers is True, expected a whole number"),
        ({"crop_overlap": -0.1}, "crop_overlap is -0.1, expected a number from 0 to 1"),
        ({"crop_overlap": 1, "crop_layers": 1}, "all crops would be the image"),
    ],
)
def test_numbers_that_are_none(options, message, model):
    with pytest.raises(InputError, match=message):
        model.all_masks(photograph(30, 40), **options)


def test_on_the_command_line(model, tmp_path):
    photograph(40, 50).save(tmp_path / "a.png")
    options = ["--points-per-side", "3", "--min-score", "0", "--min-stability", "0.2", "--json"]
    options += ["--crop-layers", "1", "--crop-overlap", "0.5"]
    arguments = ["all-masks", str(model.folder), str(tmp_path / "a.png"), *options]
    result = CliRunner().invoke(main, [*arguments, "--draw", str(tmp_path / "drawn.png")])
    assert result.exit_code == 0, result.output
    [row] = [json.loads(line) for line in result.output.splitlines()]
    crop = {"crop_layers": 1, "crop_overlap": 0.5}
    expected = model.all_masks(tmp_path / "a.png", points_per_side=3, **LEAST, **crop)
    assert [one["score"] for one in row["masks"]] == pytest.approx([one["score"] for one in expected])
    assert Image.open(tmp_path / "drawn.png").size == (50, 40)
