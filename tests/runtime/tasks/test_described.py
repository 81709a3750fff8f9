"""Objects that texts describe: beside the pipeline of transformers."""

import json

import numpy as np
import onnxruntime
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from click.testing import CliRunner
from PIL import Image

import txexport
from txexport.cli.main import main
from txexport.errors import InputError

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (160, 48), (31, 150), (30, 30)]
TEXTS, TEMPLATE = ["a cat", "the mat", "Anna", "a cat"], "see {}"


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.png" for number in range(len(SIZES))]
    for path, (height, width) in zip(paths, SIZES, strict=True):
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    return [str(path) for path in paths]


KINDS = {
    "owlvit": (transformers.OwlViTForObjectDetection, transformers.OwlViTImageProcessorPil),
    "owlv2": (transformers.Owlv2ForObjectDetection, transformers.Owlv2ImageProcessorPil),
}


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def folder(kind, tmp_path_factory):
    folder, count = tmp_path_factory.mktemp(kind), len(tiny_tokenizers.clip())
    tiny_checkpoint.save(folder / "in", kind, text_config={"vocab_size": count})
    tiny_tokenizers.clip().save_pretrained(folder / "in")
    KINDS[kind][1](size={"height": 30, "width": 30}).save_pretrained(folder / "in")
    assert txexport.export(folder / "in", folder / "out").task == "zero-shot-object-detection"
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def original(kind, folder):
    return KINDS[kind][0].from_pretrained(folder / "in").eval()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_find_equals_the_pipeline(batch_size, kind, folder, model, original, photographs):
    judge = transformers.pipeline(
        "zero-shot-object-detection",
        model=original,
        image_processor=KINDS[kind][1].from_pretrained(folder / "in"),
        tokenizer=tiny_tokenizers.clip(),
    )
    steps: list = []
    answers = model.find(
        photographs,
        TEXTS[:3],
        template=TEMPLATE,
        threshold=0.4,
        batch_size=batch_size,
        progress=lambda *counts: steps.append(counts),
    )
    count = 0
    for objects, path in zip(answers, photographs, strict=True):
        queries = [TEMPLATE.replace("{}", text) for text in TEXTS[:3]]
        expected = judge(path, candidate_labels=queries, threshold=0.4)
        assert len(objects) == len(expected)
        for one, other in zip(objects, expected, strict=True):
            assert abs(one["score"] - other["score"]) < 1e-5
        for label, query in zip(TEXTS[:3], queries, strict=True):
            ours = [one for one in objects if one["label"] == label]
            theirs = [one for one in expected if one["label"] == query]
            for one, other in zip(ours, theirs, strict=True):
                for edge, pixels in other["box"].items():
                    assert abs(one["box"][edge] - pixels) < 1 + 1e-3  # the pipeline cuts fractions off
        count += len(objects)
    assert count > 50
    assert steps[-1] == (9, 9)


def test_one_image_and_the_same_text_twice(model, photographs):
    objects = model.find(photographs[0], TEXTS, threshold=0)
    assert len(objects) == 25 * len(TEXTS)
    scores = [one["score"] for one in objects]
    assert scores == sorted(scores, reverse=True)
    assert model.find([], TEXTS) == []


def test_texts_that_are_padding_have_the_lowest_scores(folder, original):
    """In the graph for other clients, in which each image has its own texts."""
    ids = np.array([[5, 6, 7], [0, 0, 0], [9, 3, 8], [4, 2, 1]])
    pixels = np.random.default_rng(0).standard_normal((2, 3, 30, 30), np.float32)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "pixel_values": pixels}
    session = onnxruntime.InferenceSession(folder / "out/onnx/model.onnx", providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, inputs), strict=True))
    with torch.no_grad():
        expected = original(**{name: torch.from_numpy(array) for name, array in inputs.items()})
    assert (outputs["logits"][0, :, 1] == np.finfo(np.float32).min).all()
    for name in ("logits", "pred_boxes", "text_embeds", "image_embeds"):
        assert np.abs(outputs[name] - expected[name].numpy()).max() < 2e-5, name


def test_what_is_wrong_is_one_line(model, photographs):
    with pytest.raises(InputError, match="0 texts and template"):
        model.find(photographs, [])
    with pytest.raises(InputError, match="template 'cat', expected texts"):
        model.find(photographs, TEXTS, template="cat")
    with pytest.raises(InputError, match="threshold is 2, expected a number from 0 to below 1"):
        model.find(photographs, TEXTS, threshold=2)
    with pytest.raises(InputError, match="is longer than 16"):
        model.find(photographs, ["the cat sat on the mat " * 9])


def test_files_on_the_command_line(model, photographs, tmp_path):
    texts = [part for text in TEXTS[:2] for part in ("--text", text)]
    arguments = ["find", str(model.folder), *photographs[:2], *texts, "--threshold", "0.3", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--draw", str(tmp_path / "drawn")])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    expected = model.find(photographs[:2], TEXTS[:2], threshold=0.3)
    assert [len(row["objects"]) for row in rows] == [len(objects) for objects in expected]
    assert len(list((tmp_path / "drawn").iterdir())) == 2
