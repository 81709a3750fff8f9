"""Segments that texts describe: beside the model and the processor of transformers."""

import json
import shutil

import numpy as np
import onnxruntime
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from click.testing import CliRunner
from helpers.photographs import write_photographs
from helpers.rows import REFINED_MAP
from PIL import Image

import txexport
from txexport.cli.main import main
from txexport.errors import InputError, UnsupportedError
from txexport.runtime.run_lengths import run_lengths

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (30, 30), (7, 9)]
TEXTS = ["a cat", "the mat on a rug", "Anna"]
# Changes of the checkpoint, and the side of images after resizing: the table's, more, and pixels left over.
KINDS = {"plain": ({}, 30), "larger": ({}, 45), "refined": (REFINED_MAP, 41)}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    return write_photographs(tmp_path_factory.mktemp("images"), SIZES)


@pytest.fixture(scope="module", params=KINDS)
def folder(request, tmp_path_factory):
    """A checkpoint with its processor, and its bundle."""
    changes, side = KINDS[request.param]
    folder, tokenizer = tmp_path_factory.mktemp("clipseg"), tiny_tokenizers.clip()
    mark = {"vocab_size": len(tokenizer), "eos_token_id": tokenizer.eos_token_id}
    text = mark | changes.get("text_config", {})
    tiny_checkpoint.save(folder / "in", "clipseg", **changes | {"text_config": text})
    images = transformers.ViTImageProcessorPil(size={"height": side, "width": side})
    transformers.CLIPSegProcessor(images, tokenizer).save_pretrained(folder / "in")
    settings = folder / "in" / "preprocessor_config.json"
    if not settings.is_file():  # which the library writes within processor_config.json
        images.save_pretrained(folder / "in")
    assert txexport.export(folder / "in", folder / "out").task == "image-segmentation"
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def original(folder):
    return transformers.CLIPSegForImageSegmentation.from_pretrained(folder / "in").eval()


def inputs_of(folder, paths):
    """The original's inputs: each text with each image."""
    images = [Image.open(path).convert("RGB") for path in paths for _ in TEXTS]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "in")
    processor = transformers.CLIPSegProcessor(
        transformers.ViTImageProcessorPil.from_pretrained(folder / "in"), tokenizer
    )
    return processor(text=TEXTS * len(paths), images=images, padding=True, return_tensors="pt")


def truths(folder, original, path):
    """The probabilities (T,H,W) that the original gives each pixel of an image."""
    with torch.no_grad():
        logits = original(**inputs_of(folder, [path])).logits[:, None]
    size = Image.open(path).size[::-1]
    pixels = torch.nn.functional.interpolate(logits, size, mode="bilinear", align_corners=False)
    return pixels.sigmoid()[:, 0].numpy()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_segments_are_the_original_s(batch_size, folder, model, original, photographs):
    steps: list = []
    answers = model.segment(
        photographs, texts=TEXTS, batch_size=batch_size, progress=lambda *counts: steps.append(counts)
    )
    for path, parts in zip(photographs, answers, strict=True):
        expected = truths(folder, original, path)
        assert [one["label"] for one in parts] == TEXTS
        for one, chances in zip(parts, expected, strict=True):
            assert abs(one["score"] - chances.max()) < 1e-5
            sure = np.abs(chances - 0.5) > 1e-5
            assert one["mask"].shape == chances.shape
            assert np.array_equal(one["mask"][sure], (chances > 0.5)[sure])
    masks = [one["mask"] for parts in answers for one in parts]
    assert sum(mask.any() and not mask.all() for mask in masks) > len(SIZES)
    assert steps[-1] == (len(SIZES), len(SIZES))


def test_thresholds_and_many_texts(model, photographs):
    """A mask is smaller for a higher threshold; a text's part does not depend on the others."""
    [part] = model.segment(photographs[0], texts=TEXTS[0])
    for threshold in (0.0, 0.3, 0.7):
        [other] = model.segment(photographs[0], texts=[TEXTS[0]], mask_threshold=threshold)
        smaller, larger = (part, other) if threshold < 0.5 else (other, part)
        assert (larger["mask"] | smaller["mask"] == larger["mask"]).all()
        assert threshold or other["mask"].all()
    many = model.segment(photographs[0], texts=[*TEXTS, *["the dog"] * 30, TEXTS[0]])
    assert len(many) == 34
    for one in (many[0], many[-1]):
        assert abs(one["score"] - part["score"]) < 1e-6
        assert (one["mask"] != part["mask"]).sum() < 3
    assert model.segment([], texts=TEXTS) == []


def test_other_clients_read_pairs(folder, original, photographs):
    """In their graph each text has the image of its place."""
    inputs = inputs_of(folder, photographs[:2])
    session = onnxruntime.InferenceSession(folder / "out/onnx/model.onnx", providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    assert names == ["input_ids", "attention_mask", "pixel_values"]
    [logits] = session.run(None, {name: inputs[name].numpy() for name in names})
    with torch.no_grad():
        expected = original(**inputs).logits.numpy()
    assert logits.shape == expected.shape
    assert np.abs(logits - expected).max() < 2e-5


def test_what_is_wrong_is_one_line(model, photographs):
    with pytest.raises(InputError, match="segments by texts; give texts"):
        model.segment(photographs[0])
    with pytest.raises(InputError, match="segments by texts; give texts"):
        model.segment(photographs[0], texts=[])
    with pytest.raises(InputError, match="kind is 'panoptic', and this model segments by texts"):
        model.segment(photographs[0], texts=TEXTS, kind="panoptic")
    with pytest.raises(InputError, match="a text is PngImageFile, expected str"):
        model.segment(photographs[0], texts=[Image.open(photographs[1])])
    with pytest.raises(InputError, match="is longer than 16"):
        model.segment(photographs[0], texts=["the cat sat on the mat " * 9])
    [part] = model.segment(photographs[0], texts=["the cat sat on the mat " * 9], truncate=True)
    assert part["mask"].shape == SIZES[0]
    with pytest.raises(InputError, match=r"^mask_threshold is 1"):
        model.segment(photographs[0], texts=TEXTS, mask_threshold=1)


def test_another_image_size(folder, photographs, tmp_path):
    """Positions are interpolated by the graph; squares alone are maps."""
    txexport.export(folder / "in", tmp_path / "larger", image_size=(54, 54), only="native")
    with txexport.load(tmp_path / "larger", device="cpu") as larger:
        [part] = larger.segment(photographs[0], texts=TEXTS[:1])
        assert part["mask"].shape == SIZES[0]
    with pytest.raises(UnsupportedError, match="but clipseg reads squares alone"):
        txexport.export(folder / "in", tmp_path / "oblong", image_size=(30, 54))


def test_an_oblong_size_of_the_processor_is_refused(folder, photographs, tmp_path):
    shutil.copytree(folder / "in", tmp_path / "in", ignore=shutil.ignore_patterns("processor_config.json"))
    transformers.ViTImageProcessorPil(size={"height": 30, "width": 54}).save_pretrained(tmp_path / "in")
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    with (
        txexport.load(tmp_path / "out", device="cpu") as oblong,
        pytest.raises(InputError, match="makes images of 54 x 30, and this model reads squares"),
    ):
        oblong.segment(photographs[0], texts=TEXTS)


def test_files_on_the_command_line(model, photographs, tmp_path):
    texts = [part for text in TEXTS[:2] for part in ("--text", text)]
    arguments = ["segment", str(model.folder), *photographs[:2], *texts, "--mask-threshold", "0.4", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--draw", str(tmp_path / "drawn")])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    for row, parts in zip(
        rows, model.segment(photographs[:2], texts=TEXTS[:2], mask_threshold=0.4), strict=True
    ):
        assert row["segments"] == [one | {"mask": run_lengths(one["mask"])} for one in parts]
    assert len(list((tmp_path / "drawn").iterdir())) == 2
    again = model.segment(photographs[0], texts=np.array(TEXTS[:2]), mask_threshold=0.4)
    assert rows[0]["segments"] == [one | {"mask": run_lengths(one["mask"])} for one in again]
    result = CliRunner().invoke(main, arguments[:3])
    assert result.exit_code == 2
    assert "segments by texts" in result.output


def test_what_reads_no_texts_says_so(photographs, tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "segformer", "SegformerForSemanticSegmentation")
    transformers.SegformerImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path / "in")
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    with (
        txexport.load(tmp_path / "out", device="cpu") as model,
        pytest.raises(InputError, match="has labels of its own, and reads no texts"),
    ):
        model.segment(photographs[0], texts=TEXTS)


def test_two_bundles_are_compared(folder, tmp_path):
    """`compare` reads each text with every image, of both bundles."""
    txexport.export(folder / "in", tmp_path / "out", only="native", opset=17)
    report = txexport.compare(folder / "out", tmp_path / "out")
    assert {case.name for case in report.cases} >= {"three ragged texts in two images"}
    assert all(case.ok and case.checks for case in report.cases)


def test_the_model_of_whole_images_is_refused(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "clipseg", "CLIPSegModel")
    with pytest.raises(UnsupportedError, match="'CLIPSegModel' is not supported: it compares texts"):
        txexport.export(tmp_path / "in", tmp_path / "out")
