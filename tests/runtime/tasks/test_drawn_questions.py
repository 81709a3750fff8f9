"""Pix2Struct: captions of images of any shape, and answers to questions above them, as transformers'."""

import json

import numpy as np
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import drawn
from helpers.answers_about_images import BEAMS, CHANGING
from helpers.pictured import encoded, picture

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, InputError, UnsupportedError
from txexport.exporter import export
from txexport.verification import verify

IMAGES = [picture(53, 37), picture(24, 24, 1), picture(17, 90, 2), picture(200, 9, 3)]
QUESTIONS = ["who sat on the mat?", "is it far?", "Anna", "what did the cat do " * 6]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("drawn")
    for name, questions in (("captions", False), ("questions", True)):
        drawn.save(root / name, questions)
        export(root / name, root / f"{name} bundle", only="native")
        export(root / name, root / f"{name} dynamic", only="native", cache="dynamic")
    return root


@pytest.fixture(scope="module")
def library(folders):
    """A function from a checkpoint, an image, a question and options to the library's answer."""
    loaded = {
        name: (
            transformers.Pix2StructForConditionalGeneration.from_pretrained(folders / name).eval(),
            transformers.AutoImageProcessor.from_pretrained(folders / name, backend="pil"),
            transformers.AutoTokenizer.from_pretrained(folders / name),
        )
        for name in ("captions", "questions")
    }

    @torch.no_grad()
    def answer(name, image, question=None, **options):
        original, processor, tokenizer = loaded[name]
        if question:  # its own font is one that it downloads
            pixels = np.asarray(image).transpose(2, 0, 1)
            font = str(folders / name / "Arial.TTF")
            image = processor.render_header(pixels, question, font_path=font).transpose(1, 2, 0)
        inputs = processor(image, return_tensors="pt", is_vqa=False)
        tokens = original.generate(**inputs, do_sample=False, **options)
        return tokenizer.batch_decode(tokens, skip_special_tokens=True)[0]

    return answer


@pytest.mark.parametrize("name", ["captions", "questions"])
def test_the_bundle_is_verified(name, folders):
    report = verify(folders / f"{name} bundle", cases="quick", reference="transformers")
    assert report.ok
    assert "image processor" in {case.name for case in report.cases if case.skipped is None}


@pytest.mark.parametrize("options", [CHANGING, BEAMS], ids=["greedy", "beams"])
def test_captions_are_the_librarys(options, library, folders):
    expected = [library("captions", image, **options) for image in IMAGES]
    for folder in ("captions bundle", "captions dynamic"):
        model = txexport.load(folders / folder)
        assert model.image_to_text(IMAGES, **options) == expected
        assert model.image_to_text(IMAGES[0], **options) == expected[0]
    assert len(set(expected)) > 1


@pytest.mark.parametrize("options", [CHANGING, BEAMS], ids=["greedy", "beams"])
def test_answers_are_the_librarys(options, library, folders):
    pairs = zip(IMAGES, QUESTIONS, strict=True)
    expected = [library("questions", image, question, **options) for image, question in pairs]
    by_image = [library("questions", image, QUESTIONS[0], **options) for image in IMAGES]
    for folder in ("questions bundle", "questions dynamic"):
        model = txexport.load(folders / folder)
        assert model.generate(QUESTIONS, images=IMAGES, **options) == expected
        assert model.ask_image(IMAGES, QUESTIONS[0], **options) == by_image
        assert model.ask_image(IMAGES[0], QUESTIONS[0], **options) == by_image[0]
    assert len({*expected, *by_image}) > 2


def test_an_answer_is_streamed(folders):
    model = txexport.load(folders / "questions bundle")
    pieces = list(model.stream(QUESTIONS[0], images=IMAGES[0], **CHANGING))
    assert "".join(pieces) == model.ask_image(IMAGES[0], QUESTIONS[0], **CHANGING)


def test_patches_of_several_images_are_one_batch(folders):
    """Those of one array for each image, padded by nobody: the graph reads them one by one."""
    model = txexport.load(folders / "captions bundle")
    patches = model.bundle.files.flattened.pixels(IMAGES)
    assert len({len(one) for one in patches}) > 1
    ids = model.generate_ids(patches, **CHANGING)
    assert [model.text.decode([one])[0] for one in ids] == model.image_to_text(IMAGES, **CHANGING)


def test_one_graph_reads_a_padded_batch(folders):
    model = txexport.load(folders / "captions bundle")
    flattened = model.bundle.files.flattened
    inputs = flattened.inputs(flattened.pixels(IMAGES))
    together = model.bundle.run("encoder_model", **inputs)["last_hidden_state"]
    for row, one in zip(together, model.bundle.files.flattened.pixels(IMAGES), strict=True):
        single = model.bundle.run(
            "encoder_model", flattened_patches=one[None], attention_mask=np.ones((1, len(one)), np.int64)
        )["last_hidden_state"][0]
        np.testing.assert_allclose(row[: len(single)], single, atol=1e-5)


@pytest.mark.parametrize(
    ("questions", "images", "message"),
    [
        (QUESTIONS[0], None, "a question has 0 images, expected one"),
        ([QUESTIONS[0]], [IMAGES[:2]], "a question has 2 images, expected one"),
        (" ", IMAGES[0], "a question is empty, expected some text"),
        ("word " * 9_000, IMAGES[0], "a question of 45,000 characters is drawn in .*; shorten it"),
    ],
)
def test_a_question_has_a_text_and_an_image(questions, images, message, folders):
    with pytest.raises(InputError, match=message):
        txexport.load(folders / "questions bundle").generate(questions, images=images)


@pytest.mark.parametrize("drawn_by", [True, False, None], ids=["processor", "no processor", "silent"])
def test_the_processor_tells_whether_a_question_is_drawn(drawn_by, folders, tmp_path):
    """Against config.json too, as in the original; published files tell it in either."""
    drawn.save(tmp_path / "in", questions=drawn_by is not True)
    file = tmp_path / "in/processor_config.json"
    values = json.loads(file.read_text())
    file.write_text(
        json.dumps(values | {"image_processor": values["image_processor"] | {"is_vqa": drawn_by}})
    )
    manifest = export(tmp_path / "in", tmp_path / "out", only="native")
    assert manifest.task == ("image-to-text" if drawn_by is False else "image-text-to-text")


def test_the_text_s_own_tie_is_not_read(tmp_path):
    """Nested tables of old files have true there, which the original overwrites."""
    drawn.save(tmp_path / "in")
    file = tmp_path / "in/config.json"
    config = json.loads(file.read_text())
    file.write_text(
        json.dumps(config | {"text_config": config["text_config"] | {"tie_word_embeddings": True}})
    )
    export(tmp_path / "in", tmp_path / "out", only="native")
    assert verify(tmp_path / "out", cases="quick").ok


def test_what_is_no_image_in_patches_is_named(folders):
    with pytest.raises(InputError, match="an image in patches is of shape"):
        txexport.load(folders / "questions bundle").generate_ids([[1, 2]])
    with pytest.raises(InputError, match="scores no texts; it has ask_image"):
        txexport.load(folders / "questions bundle").score("a", "b")


def test_without_a_font_questions_are_refused(tmp_path):
    drawn.save(tmp_path / "in", questions=True, font=False)
    export(tmp_path / "in", tmp_path / "out", only="native")
    message = r"questions are drawn with the font Arial\.TTF, which .* does not have; put it into"
    with pytest.raises(InputError, match=message):
        txexport.load(tmp_path / "out").ask_image(IMAGES[0], QUESTIONS[0])
    export(tmp_path / "in", tmp_path / "drawn", task="image-to-text", only="native")
    model = txexport.load(tmp_path / "drawn")
    assert isinstance(model.image_to_text(IMAGES[0], **CHANGING), str)
    (tmp_path / "out" / "Arial.TTF").write_bytes(b"no font")
    with pytest.raises(BundleError, match="is no font"):
        txexport.load(tmp_path / "out").ask_image(IMAGES[0], QUESTIONS[0])


@pytest.mark.parametrize(
    ("settings", "kind", "message"),
    [
        ({"max_patches": 0}, BundleError, "max_patches is 0 and patch_size"),
        ({"patch_size": 16}, BundleError, "patch_size 16, expected whole numbers"),
        ({"do_normalize": 1}, BundleError, "do_normalize is 1, expected true or false"),
        (
            {"image_processor_type": "ViTImageProcessor"},
            UnsupportedError,
            "expected Pix2StructImageProcessor",
        ),
    ],
)
def test_settings_that_are_damaged_are_named(settings, kind, message, folders, tmp_path):
    export(folders / "captions", tmp_path / "out", only="native")
    file = tmp_path / "out" / "processor_config.json"
    values = json.loads(file.read_text())
    file.write_text(json.dumps(values | {"image_processor": values["image_processor"] | settings}))
    with pytest.raises(kind, match=message):
        txexport.load(tmp_path / "out", check=False).image_to_text(IMAGES[0])


def test_the_command_line_answers(folders, tmp_path):
    file = tmp_path / "image.png"
    file.write_bytes(encoded(IMAGES[0]))
    arguments = ["ask-image", str(folders / "questions bundle"), str(file), "--question", QUESTIONS[0]]
    result = CliRunner().invoke(main, [*arguments, "--json", "--max-new-tokens", "4"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output.splitlines()[0])
    model = txexport.load(folders / "questions bundle")
    assert model.ask_image(IMAGES[0], QUESTIONS[0], max_new_tokens=4) in answer.values()
