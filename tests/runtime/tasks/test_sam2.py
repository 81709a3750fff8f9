"""SAM 2's masks for points, boxes and everything: against the model, the processor and the pipeline.

torchvision is not needed: see helpers/sam2_processor.py for what stands in for it.
"""

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers import sam2_processor
from PIL import Image

import txexport
from txexport.contracts import roles

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150)]
SIDE = 96
PROMPTS = [
    {"points": [[10, 12]]},
    {"points": [[10, 12], [30.5, 20]], "labels": [1, 0]},
    {"box": [3, 4, 30, 31]},
    {"box": [13, 14, 31, 25.5]},
    {"points": [[20, 20]], "labels": [0], "box": [3.5, 4, 30, 31]},
    {"points": [[-11, 500]]},  # the processor takes -10 for padding
]


def photograph(height, width):
    coarse = np.random.default_rng(height * width).integers(0, 256, (5, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height))


@pytest.fixture(scope="module", params=["sam2", "sam2_video"])
def prompted(request, tmp_path_factory):
    """A model of ours, and the model and the processor of transformers."""
    folder, model_type = tmp_path_factory.mktemp("masks"), request.param
    tiny_checkpoint.save(folder / "in", model_type)
    images = sam2_processor.processor(size={"height": SIDE, "width": SIDE})
    images.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    original = transformers.Sam2Model.from_pretrained(folder / "in").eval()
    return txexport.load(folder / "out", device="cpu"), original, transformers.Sam2Processor(images)


def of_transformers(original, processor, image, prompt, several=True):
    """The masks of a prompt, the likeliest first, with their scores."""
    points = [[prompt["points"]]] if prompt.get("points") else None
    labels = [[prompt.get("labels", [1] * len(prompt["points"]))]] if points else None
    boxes = [[prompt["box"]]] if "box" in prompt else None
    inputs = processor(
        image, input_points=points, input_labels=labels, input_boxes=boxes, return_tensors="pt"
    )
    sizes = inputs.pop("original_sizes")
    if "mask" in prompt:
        inputs["input_masks"] = torch.from_numpy(prompt["mask"])[None, None]
    with torch.inference_mode():
        outputs = original(**inputs, multimask_output=several)
    [masks] = processor.post_process_masks(outputs.pred_masks, sizes, binarize=False)
    scores = outputs.iou_scores[0, 0]
    order = torch.argsort(scores, descending=True, stable=True)
    return [(scores[number].item(), masks[0, number].numpy()) for number in order.tolist()]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("size", SIZES, ids="{0[0]} x {0[1]}".format)
def test_masks_equal_transformers(size, several, prompted):
    """For all prompts of an image at once, as for each alone."""
    model, original, processor = prompted
    image = photograph(*size)
    ours = model.masks(image, PROMPTS, several_masks=several)
    unlike = 0
    for prompt, answer in zip(PROMPTS, ours, strict=True):
        expected = of_transformers(original, processor, image, prompt, several)
        assert len(answer) == len(expected) == (3 if several else 1)
        for one, (score, logits) in zip(answer, expected, strict=True):
            assert abs(one["score"] - score) < 1e-5
            assert (one["mask"].shape, one["mask"].dtype) == (size, bool)
            near = np.abs(logits) < 1e-4 * np.abs(logits).max()
            assert (one["mask"] == (logits > 0))[~near].all()
            unlike += int(0 < one["mask"].mean() < 1)
    assert unlike


@pytest.mark.parametrize("size", SIZES, ids="{0[0]} x {0[1]}".format)
def test_a_mask_is_a_prompt(size, prompted):
    model, original, processor = prompted
    image = photograph(*size)
    first = model.masks(image, PROMPTS[0], with_logits=True)
    mask = first[0]["logits"] * np.float32(300)
    prompts = [prompt | {"mask": mask} for prompt in PROMPTS[:5]]
    for prompt, answer in zip(prompts, model.masks(image, prompts), strict=True):
        expected = of_transformers(original, processor, image, prompt)
        for one, (score, logits) in zip(answer, expected, strict=True):
            assert abs(one["score"] - score) < 1e-5
            near = np.abs(logits) < 1e-4 * np.abs(logits).max()
            assert (one["mask"] == (logits > 0))[~near].all()


def test_boxes_alone_as_transformers_js_gives_them(prompted):
    """Points and labels of no length, those of one group where there are several boxes."""
    model, *_ = prompted
    image = model.bundle.files.images.prepared(photograph(40, 50))
    encoded = model.bundle.sessions[roles.IMAGE_ENCODER].run({"pixel_values": image.values[None]})
    decoder = model.bundle.sessions[roles.MASK_DECODER]
    boxes = np.array([[[3, 4, 30, 31], [13, 14, 31, 25]]], np.float32)
    labels = np.zeros((1, 2, 0), np.int64)
    outputs = [
        decoder.run(
            {
                **encoded,
                "input_points": np.zeros((1, groups, 0, 2), np.float32),
                "input_labels": labels,
                "input_boxes": boxes,
                "input_masks": np.zeros((1, 1, 24, 24), np.float32),
                "has_input_masks": np.zeros((1, 1), np.int64),
            }
        )
        for groups in (1, 2)
    ]
    assert outputs[0]["pred_masks"].shape[:3] == (1, 2, 4)
    assert outputs[0]["object_score_logits"].shape == (1, 2, 1)
    for name, value in outputs[0].items():
        assert np.array_equal(value, outputs[1][name])


@pytest.mark.parametrize("prompted", ["sam2"], indirect=True)
def test_a_clear_prompt_gives_a_stable_mask_or_the_likeliest(prompted):
    """Both happen here, so that the test of equality sees both."""
    model, *_ = prompted
    replaced = set()
    for size in SIZES:
        for prompt in PROMPTS:
            image = photograph(*size)
            [clear], several = model.masks(image, prompt, several_masks=False), model.masks(image, prompt)
            replaced.add(clear["score"] == several[0]["score"])
    assert replaced == {True, False}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """A model with logits of about 8, which a shift by 1 leaves, as those of a trained model."""
    folder = tmp_path_factory.mktemp("everything")
    original = tiny_checkpoint.build("sam2")
    with torch.no_grad():
        for network in original.mask_decoder.output_hypernetworks_mlps:
            network.proj_out.weight *= 800
            network.proj_out.bias *= 800
    original.save_pretrained(folder / "in")
    images = sam2_processor.processor(size={"height": SIDE, "width": SIDE})
    images.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    return txexport.load(folder / "out", device="cpu"), original, images


def over_the_image(target_size, coords, original_size, is_bounding_box=False):
    """Points of an image in pixels of the model's input, to which SAM 2 stretches it.

    That of transformers keeps the aspect, as SAM does: its grid of points leaves a part of any image out that
    is no square. Meta's own generator of masks has the points here.
    """
    height, width = original_size
    return coords.float() * torch.tensor([target_size / width, target_size / height])


@pytest.mark.parametrize(("overlap", "least", "layers"), [(0.7, 1, 0), (0.97, 1, 0), (1, 20, 0), (1, 20, 1)])
@pytest.mark.parametrize("size", SIZES, ids="{0[0]} x {0[1]}".format)
def test_masks_of_everything_are_those_of_the_pipeline(size, overlap, least, layers, everything, monkeypatch):
    """In crops too, all of whose edges are near those of so small an image."""
    model, original, images = everything
    if size[0] != size[1]:
        monkeypatch.setattr(sam2_processor.module(), "_normalize_coordinates", over_the_image)
    judge = transformers.pipeline("mask-generation", model=original, image_processor=images)
    image = photograph(*size)
    numbers = {"min_score": 0.0, "min_stability": 0.2, "overlap": overlap}
    answers = model.all_masks(image, points_per_side=5, batch_size=7, crop_layers=layers, **numbers)
    expected = judge(
        image,
        points_per_crop=5,
        points_per_batch=7,
        pred_iou_thresh=1e-9,
        stability_score_thresh=0.2,
        crops_nms_thresh=overlap,
        crops_n_layers=layers,
    )
    assert len(answers) == len(expected["masks"]) >= least
    for ours, mask, score in zip(answers, expected["masks"], expected["scores"], strict=True):
        assert abs(ours["score"] - float(score)) < 1e-5
        assert ours["mask"].shape == mask.shape == size
        assert (ours["mask"] != np.asarray(mask)).mean() < 1e-3
