"""Objects that the phrases of one text describe: beside the processor of transformers."""

import json

import numpy as np
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
TEXTS = ["A cat", " remote controls", "Anna's mat", "dog"]
EDGES = {"shortest_edge": 70, "longest_edge": 120}


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    rng, folder = np.random.default_rng(5), tmp_path_factory.mktemp("images")
    paths = [folder / f"{number}.png" for number in range(len(SIZES))]
    for path, (height, width) in zip(paths, SIZES, strict=True):
        Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)).save(path)
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def processor():
    images = transformers.GroundingDinoImageProcessorPil(size=EDGES)
    return transformers.GroundingDinoProcessor(images, tiny_tokenizers.phrases())


@pytest.fixture(scope="module")
def folder(processor, tmp_path_factory):
    folder = tmp_path_factory.mktemp("grounding")
    tiny_checkpoint.save(folder / "in", "grounding-dino", num_queries=20)
    processor.tokenizer.save_pretrained(folder / "in")
    processor.image_processor.save_pretrained(folder / "in")
    assert txexport.export(folder / "in", folder / "out").task == "zero-shot-object-detection"
    return folder


@pytest.fixture(scope="module")
def model(folder):
    return txexport.load(folder / "out", device="cpu")


@pytest.fixture(scope="module")
def original(folder):
    return transformers.GroundingDinoForObjectDetection.from_pretrained(folder / "in").eval()


@torch.no_grad()
def answers(processor, original, path, texts, threshold, text_threshold):
    """The objects of the library's processor: scores, boxes, and tokens as texts."""
    image = Image.open(path)
    inputs = processor(images=image, text=[texts], return_tensors="pt")
    [result] = processor.post_process_grounded_object_detection(
        original(**inputs),
        inputs["input_ids"],
        threshold=threshold,
        text_threshold=text_threshold,
        target_sizes=[(image.height, image.width)],
    )
    return result


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("threshold", [0.0, 0.5])
def test_find_equals_the_processor(threshold, batch_size, model, processor, original, photographs):
    steps: list = []
    every = model.find(
        photographs,
        TEXTS,
        threshold=threshold,
        batch_size=batch_size,
        progress=lambda *counts: steps.append(counts),
    )
    count, labels = 0, set()
    for objects, path in zip(every, photographs, strict=True):
        expected = answers(processor, original, path, TEXTS, threshold, 0.5)
        order = torch.argsort(expected["scores"], descending=True, stable=True).tolist()
        assert len(objects) == len(order)
        for one, query in zip(objects, order, strict=True):
            assert abs(one["score"] - expected["scores"][query].item()) < 1e-5
            box = [one["box"][edge] for edge in ("xmin", "ymin", "xmax", "ymax")]
            assert np.abs(np.array(box) - expected["boxes"][query].numpy()).max() < 2e-3
        count += len(objects)
        labels |= {one["label"] for one in objects}
    assert 1 < count < 100 if threshold else count == 20 * len(SIZES)
    assert threshold or len(labels) > 1
    assert steps[-1] == (9, 9)


def test_labels_are_those_of_the_processor(model, processor, original, photographs):
    """They agree if the tokens above a threshold are those of one text, beside full stops."""
    texts, count = ["cat", "dog", "mat"], 0
    for path in photographs:
        objects = model.find(path, texts, threshold=0.0)
        for share in (0.3, 0.5, 0.7, 0.9, 0.97):
            expected = answers(processor, original, path, texts, 0.0, share)
            order = torch.argsort(expected["scores"], descending=True, stable=True).tolist()
            for one, query in zip(objects, order, strict=True):
                if (label := expected["text_labels"][query].replace(".", "")) in texts:
                    assert one["label"] == label
                    count += 1
    assert count > 20


def test_a_template_and_the_same_text_twice(model, photographs):
    [objects] = model.find(photographs[:1], ["cat", "cat", "dog"], template="a {}", threshold=0)
    assert len(objects) == 20
    assert objects == sorted(objects, key=lambda one: -one["score"])
    same = model.find(photographs[0], ["a cat", "a cat", "A Dog "], threshold=0)
    assert [one["score"] for one in same] == [one["score"] for one in objects]
    assert model.find([], TEXTS) == []


def test_what_is_wrong_is_one_line(model, photographs):
    with pytest.raises(
        InputError, match=r"text 'a cat\. a dog' with the template; expected a phrase without"
    ):
        model.find(photographs, ["A cat. a dog"])
    with pytest.raises(InputError, match="text '' with the template"):
        model.find(photographs, ["cat", " "])
    with pytest.raises(InputError, match="0 texts and template"):
        model.find(photographs, [])
    with pytest.raises(InputError, match="is longer than 32"):
        model.find(photographs, ["cat", "dog " * 30])
    with pytest.raises(InputError, match="zero-shot-object-detection"):
        model.embed(["a cat"])


def test_files_on_the_command_line(model, photographs, tmp_path):
    texts = [part for text in TEXTS[:2] for part in ("--text", text)]
    arguments = ["find", str(model.folder), *photographs[:2], *texts, "--threshold", "0.3", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--draw", str(tmp_path / "drawn")])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.output.splitlines()]
    expected = model.find(photographs[:2], TEXTS[:2], threshold=0.3)
    assert [len(row["objects"]) for row in rows] == [len(objects) for objects in expected]
    assert len(list((tmp_path / "drawn").iterdir())) == 2
