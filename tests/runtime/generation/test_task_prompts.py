"""Florence-2's tasks: prompts, batches and answers as transformers' processor and generate have them."""

import json

import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import tasked
from helpers.answers_about_images import BEAMS, CHANGING, IMAGES, exported
from helpers.pictured import encoded

import txexport
from txexport.cli.main import main
from txexport.errors import InputError, UnsupportedError
from txexport.exporter import export

PROMPTS = ["<CAPTION>", "<CAPTION_TO_PHRASE_GROUNDING> the cat sat on the mat", "a dog?"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return exported(tmp_path_factory.mktemp("tasked"), tasked.save)


@pytest.fixture(scope="module")
def model(folders):
    return txexport.load(folders / "bundle")


@pytest.fixture(scope="module")
def library(folders):
    """A function from prompts, images and options to the library's answers."""
    folder = folders / "checkpoint"
    original = transformers.Florence2ForConditionalGeneration.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder, backend="pil")

    @torch.no_grad()
    def answers(prompts, images, **options):
        inputs = processor(text=prompts, images=images, return_tensors="pt", padding=True)
        tokens = original.generate(**inputs, do_sample=False, **options)
        texts = processor.batch_decode(tokens, skip_special_tokens=False)
        return [text.replace("<s>", "").replace("</s>", "").replace("<pad>", "").strip() for text in texts]

    return answers


@pytest.mark.parametrize("options", [CHANGING, BEAMS], ids=["greedy", "beams"])
def test_answers_are_the_librarys(options, model, library, folders):
    """One by one and as a ragged batch; those of different images differ."""
    expected = [library([text], [image], **options)[0] for text, image in zip(PROMPTS, IMAGES, strict=True)]
    assert expected == library(PROMPTS, IMAGES, **options)
    assert len(set(expected)) > 1
    assert model.generate(PROMPTS, images=IMAGES, **options) == expected
    assert txexport.load(folders / "dynamic").generate(PROMPTS, images=IMAGES, **options) == expected
    captions = [library(["<OD>"], [image], **options)[0] for image in IMAGES]
    assert any("<loc_" in caption for caption in captions)
    assert model.ask_image(IMAGES, "<OD>", **options) == captions
    assert model.ask_image(IMAGES[0], "<OD>", **options) == captions[0]


def test_a_text_without_an_image_is_read_too(model, library):
    text = "some text alone"
    assert model.generate(text, **CHANGING) == library([text], None, **CHANGING)[0]
    both = model.generate([text, PROMPTS[0]], images=[None, IMAGES[0]], **CHANGING)
    assert both == [model.generate(text, **CHANGING), model.ask_image(IMAGES[0], PROMPTS[0], **CHANGING)]


@pytest.mark.parametrize(
    ("prompt", "images", "message"),
    [
        ("<CAPTION> of it", IMAGES[0], "expected <CAPTION> alone, which takes no text"),
        ("a cat", IMAGES[:2], "a prompt has 2 images, expected one"),
        ("a <image> cat", IMAGES[0], "a prompt has <image>, which is added for its image; leave it out"),
    ],
)
def test_other_prompts_are_refused(prompt, images, message, model):
    with pytest.raises(InputError, match=message):
        model.generate(prompt, images=images)


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
    arguments = ["ask-image", str(folders / "bundle"), str(file), "--question", "<OD>", "--json"]
    result = CliRunner().invoke(main, [*arguments, "--max-new-tokens", "4"])
    assert result.exit_code == 0, result.output
    answer = json.loads(result.output.splitlines()[0])
    assert model.ask_image(IMAGES[0], "<OD>", max_new_tokens=4) in answer.values()
