"""Masks for points and boxes: against the processor and the model of transformers."""

import numpy as np
import onnxruntime as ort
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers import sam2_processor
from PIL import Image

import txexport
from txexport.errors import InputError
from txexport.runtime.interpolation import bilinear

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150)]
SIDE = 60


def photograph(height, width):
    coarse = np.random.default_rng(height * width).integers(0, 256, (5, 4, 3), np.uint8)
    return Image.fromarray(coarse).resize((width, height))


@pytest.fixture(scope="module")
def prompted(tmp_path_factory):
    """A model of ours, and the model and the processor of transformers."""
    folder = tmp_path_factory.mktemp("masks")
    tiny_checkpoint.save(folder / "in", "sam", "SamModel")
    images = transformers.SamImageProcessorPil(
        size={"longest_edge": SIDE}, pad_size={"height": SIDE, "width": SIDE}
    )
    processor = transformers.SamProcessor(images)
    images.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    original = transformers.SamModel.from_pretrained(folder / "in").eval()
    return txexport.load(folder / "out", device="cpu"), original, processor


def of_transformers(original, processor, image, prompt, several=True):
    """The masks of a prompt, the likeliest first, with their scores."""
    points = [[prompt["points"]]] if prompt.get("points") else None
    labels = [[prompt.get("labels", [1] * len(prompt["points"]))]] if points else None
    boxes = [[prompt["box"]]] if "box" in prompt else None
    inputs = processor(
        image, input_points=points, input_labels=labels, input_boxes=boxes, return_tensors="pt"
    )
    sizes = inputs.pop("original_sizes"), inputs.pop("reshaped_input_sizes")
    if points:
        inputs["input_points"] = inputs["input_points"].float()
    if "mask" in prompt:
        inputs["input_masks"] = torch.from_numpy(prompt["mask"])[None, None]
    with torch.inference_mode():
        outputs = original(**inputs, multimask_output=several)
    [masks] = processor.image_processor.post_process_masks(outputs.pred_masks, *sizes, binarize=False)
    scores = outputs.iou_scores[0, 0]
    order = torch.argsort(scores, descending=True, stable=True)
    return [(scores[number].item(), masks[0, number].numpy()) for number in order.tolist()]


PROMPTS = [
    {"points": [[10, 12]]},
    {"points": [[10, 12], [30.5, 20]], "labels": [1, 0]},
    {"box": [3, 4, 30, 31]},
    {"points": [[20, 20]], "labels": [0], "box": [3.5, 4, 30, 31]},
    {"points": [[-10, 500]]},
]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("size", SIZES)
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
            assert abs(one["score"] - score) < 1e-4
            assert (one["mask"].shape, one["mask"].dtype) == (size, bool)
            near = np.abs(logits) < 1e-4 * np.abs(logits).max()
            assert (one["mask"] == (logits > 0))[~near].all()
            unlike += int(0 < one["mask"].mean() < 1)
    assert unlike


def test_one_prompt_and_several_images(prompted):
    model, *_ = prompted
    images = [photograph(*size) for size in SIZES[:3]]
    each = [model.masks(image, PROMPTS[:2]) for image in images]
    steps: list = []
    together = model.masks(images, [PROMPTS[:2]] * 3, progress=lambda *counts: steps.append(counts))
    assert steps[-1] == (3, 3)
    for ours, apart in zip(together, each, strict=True):
        for one, other in zip(ours, apart, strict=True):
            assert [part["score"] for part in one] == [part["score"] for part in other]
    single = model.masks(images[0], PROMPTS[0])
    assert single[0]["score"] == each[0][0][0]["score"]
    assert single[0]["score"] >= single[-1]["score"]
    assert model.masks([], []) == []


def test_an_image_is_encoded_once(prompted, monkeypatch):
    model, *_ = prompted
    encoder, runs = model.bundle.sessions["vision_encoder"], []
    run = encoder.run
    monkeypatch.setattr(encoder, "run", lambda inputs: runs.append(1) or run(inputs))
    first = model.masks(photograph(40, 41), PROMPTS, batch_size=1)
    second = model.masks(photograph(40, 41), PROMPTS)
    assert len(runs) == 1
    assert abs(first[0][0]["score"] - second[0][0]["score"]) < 1e-5
    model.masks(photograph(41, 40), PROMPTS[0])
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({}, "expected a dict with points, labels, box"),
        ({"labels": [1]}, "expected points or a box"),
        ({"point": [[1, 2]]}, "expected a dict with points, labels, box"),
        ({"points": [[1, 2]], "labels": [2]}, "expected 1 in the object and 0 outside"),
        ({"points": [[1, 2]], "labels": [1, 1]}, "expected 1, one for each point"),
        ({"points": [[1, 2, 3]]}, "expected rows of 2 numbers"),
        ({"points": [1, 2]}, "expected rows of 2 numbers"),
        ({"points": [[float("nan"), 2]]}, "expected rows of 2 numbers"),
        ({"points": [["a", 2]]}, "expected rows of 2 numbers"),
        ({"box": [1, 2, 3]}, "expected rows of 4 numbers"),
        ({"box": [5, 2, 3, 9]}, "expected left, top, right and bottom"),
        ({"points": [[1, 2]], "mask": [[1, 2]]}, r"expected the logits \(40, 40\) of an earlier answer"),
        ({"points": [[1, 2]], "mask": np.full((40, 40), np.nan)}, "expected the logits"),
        ({"points": [[1, 2]], "mask": "x"}, "expected the logits"),
        (7, "expected a dict with points, labels, box, mask, or a list"),
        ([7], "expected a dict with points"),
    ],
)
def test_a_prompt_that_is_none(prompt, message, prompted):
    with pytest.raises(InputError, match=message):
        prompted[0].masks(photograph(20, 30), prompt)


@pytest.mark.parametrize("size", SIZES, ids="{0[0]} x {0[1]}".format)
def test_a_mask_is_a_prompt(size, prompted):
    """Beside prompts without one, as alone; the same as in transformers."""
    model, original, processor = prompted
    image = photograph(*size)
    first, *others = model.masks(image, PROMPTS[:3], with_logits=True)
    assert "logits" not in model.masks(image, PROMPTS[0])[0]
    [logits, *_] = [one["logits"] for one in first]
    assert (logits.shape, logits.dtype) == ((40, 40), np.float32)
    mask = logits * np.float32(300)  # such as a trained model gives
    refined = [prompt | {"mask": mask} for prompt in PROMPTS[:4]]
    answers = model.masks(image, [refined[0], PROMPTS[0], *refined[1:], PROMPTS[2]])
    assert [one["score"] for one in answers[1]] == pytest.approx([one["score"] for one in first], abs=1e-5)
    assert [one["score"] for one in answers[5]] == pytest.approx(
        [one["score"] for one in others[1]], abs=1e-5
    )
    for prompt, answer in zip(refined, [answers[0], *answers[2:5]], strict=True):
        expected = of_transformers(original, processor, image, prompt)
        for one, (score, masked) in zip(answer, expected, strict=True):
            assert abs(one["score"] - score) < 1e-5
            near = np.abs(masked) < 1e-4 * np.abs(masked).max()
            assert (one["mask"] == (masked > 0))[~near].all()
    assert abs(answers[0][0]["score"] - first[0]["score"]) > 1e-4
    as_lists = model.masks(image, PROMPTS[0] | {"mask": mask.tolist()})
    assert [one["score"] for one in as_lists] == [one["score"] for one in model.masks(image, refined[0])]


@pytest.mark.parametrize("model_type", ["sam", "sam2"])
def test_graphs_for_other_clients_alone(model_type, prompted, tmp_path):
    """They run in ONNX Runtime as they are, and in ours with what they have: three masks of each prompt."""
    tiny_checkpoint.save(tmp_path / "in", model_type)
    images = {"sam": prompted[2].image_processor, "sam2": sam2_processor.processor(size=96)}[model_type]
    images.save_pretrained(tmp_path / "in")
    for only in ("hub", "native"):
        txexport.export(tmp_path / "in", tmp_path / only, only=only)
    native, others = (txexport.load(tmp_path / only, device="cpu") for only in ("native", "hub"))
    image, prompts = photograph(53, 37), PROMPTS[:2] + PROMPTS[-1:]
    prompts = prompts if model_type == "sam" else [*prompts, PROMPTS[2]]
    for expected, answer in zip(native.masks(image, prompts), others.masks(image, prompts), strict=True):
        assert len(answer) == len(expected) == 3
        for one, other in zip(answer, expected, strict=True):
            assert abs(one["score"] - other["score"]) < 1e-5
            assert (one["mask"] != other["mask"]).mean() < 1e-3
    numbers = {"points_per_side": 3, "min_score": 0.0, "min_stability": 0.0}
    pairs = zip(native.all_masks(image, **numbers), others.all_masks(image, **numbers), strict=True)
    assert all(abs(one["score"] - other["score"]) < 1e-5 for one, other in pairs)
    with pytest.raises(InputError, match="no mask for clear prompts; its graphs are for other clients"):
        others.masks(image, prompts, several_masks=False)
    with pytest.raises(InputError, match="takes no mask as a prompt; its graphs are for other clients alone"):
        others.masks(image, PROMPTS[0] | {"mask": np.zeros((40, 40))})
    if model_type == "sam":
        with pytest.raises(InputError, match="takes no box; its graphs are for other clients alone"):
            others.masks(image, PROMPTS[2])
    encoder, decoder = (
        ort.InferenceSession(tmp_path / "hub/onnx" / f"{name}.onnx", providers=["CPUExecutionProvider"])
        for name in ("vision_encoder", "prompt_encoder_mask_decoder")
    )
    prepared = others.bundle.files.images.prepared(image)
    encoded = dict(
        zip(
            [port.name for port in encoder.get_outputs()],
            encoder.run(None, {"pixel_values": prepared.values[None]}),
            strict=True,
        )
    )
    scale = np.array([prepared.columns / 37, prepared.rows / 53])
    feeds = {
        "input_points": (np.array(PROMPTS[0]["points"]) * scale)[None, None].astype(np.float32),
        "input_labels": np.ones((1, 1, 1), np.int64),
    }
    boxes = {"input_boxes": np.zeros((1, 0, 4), np.float32)} if model_type == "sam2" else {}
    scores = decoder.run(["iou_scores"], encoded | feeds | boxes)[0][0, 0]
    assert sorted(scores, reverse=True) == pytest.approx(
        [one["score"] for one in native.masks(image, PROMPTS[0])], abs=1e-5
    )
    totals = [txexport.inspect(tmp_path / name).parameters.total for name in ("in", "native", "hub")]
    assert totals[0] == totals[1] == totals[2] + 115  # of a mask as a prompt


def test_prompts_of_another_number_of_images(prompted):
    with pytest.raises(InputError, match="expected those of each of 2 images"):
        prompted[0].masks([photograph(20, 30)] * 2, [PROMPTS])


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (61, 18), (300, 2)])
@pytest.mark.parametrize("count", [(1, 1), (2, 9), (30, 42)])
def test_interpolation_is_that_of_pytorch(count, size):
    values = np.random.default_rng(1).standard_normal((3, *count), np.float32)
    expected = torch.nn.functional.interpolate(torch.from_numpy(values)[None], size, mode="bilinear")[0]
    assert np.abs(bilinear(values, *size) - expected.numpy()).max() < 1e-5
    assert np.array_equal(bilinear(values, *size, 3, 2), bilinear(values, *size)[:, :3, :2])
