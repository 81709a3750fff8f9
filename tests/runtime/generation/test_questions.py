"""BLIP's answers to questions about images, as transformers' processor and generate have them."""

import json

import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import questioned
from helpers.answers_about_images import BEAMS, CHANGING, IMAGES, exported
from helpers.pictured import encoded

import txexport
from txexport.cli.main import main
from txexport.errors import InputError, UnsupportedError
from txexport.exporter import export
from txexport.verification import verify

QUESTIONS = ["who sat on the mat?", "is the dog far?", "Ann"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("questioned"), questioned.save)


@pytest.fixture(scope="module")
def model(folders):
    return txexport.load(folders / "bundle")


@pytest.fixture(scope="module")
def library(folders):
    """A function from a question, an image and options to the library's answer.

    Alone: in a padded batch the library's decoder attends to the padding of questions.
    """
    folder = folders / "checkpoint"
    original = transformers.BlipForQuestionAnswering.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")

    @torch.no_grad()
    def answer(question, image, **options):
        inputs = processor(text=question, images=image, return_tensors="pt")
        tokens = original.generate(**inputs, do_sample=False, **options)
        return processor.batch_decode(tokens, skip_special_tokens=True)[0]

    return answer


def test_the_bundle_is_verified(folders):
    report = verify(folders / "bundle", cases="quick", reference="transformers")
    assert report.ok
    assert {"tokenizer", "image processor"} <= {case.name for case in report.cases if case.skipped is None}


@pytest.mark.parametrize("options", [CHANGING, BEAMS], ids=["greedy", "beams"])
def test_answers_are_the_librarys(options, model, library, folders):
    """As a ragged batch too; those of other images, and of other questions, differ."""
    expected = [
        library(question, image, **options) for question, image in zip(QUESTIONS, IMAGES, strict=True)
    ]
    assert model.generate(QUESTIONS, images=IMAGES, **options) == expected
    assert txexport.load(folders / "dynamic").generate(QUESTIONS, images=IMAGES, **options) == expected
    by_image = [library(QUESTIONS[0], image, **options) for image in IMAGES]
    assert model.ask_image(IMAGES, QUESTIONS[0], **options) == by_image
    assert model.ask_image(IMAGES[0], QUESTIONS[0], **options) == by_image[0]
    assert len({*expected, *by_image}) > 2


def test_an_image_is_encoded_once(model):
    model.bundle.image_features.clear()
    answers = [model.ask_image(IMAGES[0], question, **CHANGING) for question in QUESTIONS]
    assert len(model.bundle.image_features) == 1
    assert model.generate(QUESTIONS, images=[IMAGES[0]] * 3, **CHANGING) == answers


@pytest.mark.parametrize("images", [None, [None], [IMAGES[:2]]], ids=["without", "none", "two"])
def test_a_question_has_one_image(images, model):
    count = "2 images" if images == [IMAGES[:2]] else "0 images"
    with pytest.raises(InputError, match=f"a question has {count}, expected one"):
        model.generate([QUESTIONS[0]], images=images)


def test_rows_of_ids_have_an_image_each(model):
    ids = [[0, 60, 61, 2], [0, 62, 2]]
    with pytest.raises(InputError, match="a question has no image; give one with each as images"):
        model.generate_ids(ids)
    with pytest.raises(InputError, match="a question has no image"):
        model.generate_ids(ids, images=[IMAGES[0], None])
    assert len(model.generate_ids(ids, images=IMAGES[:2], max_new_tokens=3)) == 2


def test_conversations_are_refused(model):
    with pytest.raises(InputError, match="holds no conversations; call ask_image"):
        model.chat([{"role": "user", "content": "hello"}])


@pytest.mark.parametrize("client", ["web", "openvino"])
def test_graphs_for_other_clients_are_refused(client, folders, tmp_path):
    with pytest.raises(UnsupportedError, match="which read vectors in place of an encoder's tokens"):
        export(folders / "checkpoint", tmp_path / "out", client=client)


def test_the_command_line_answers(model, folders, tmp_path):
    file = tmp_path / "image.png"
    file.write_bytes(encoded(IMAGES[0]))
    arguments = ["ask-image", str(folders / "bundle"), str(file), "--question", QUESTIONS[0], "--json"]
    result = CliRunner().invoke(main, [*arguments, "--max-new-tokens", "4"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output.splitlines()[0])
    assert model.ask_image(IMAGES[0], QUESTIONS[0], max_new_tokens=4) in answer.values()
