"""A user loses the text of an image if one of these fails."""

import json
import shutil

import numpy as np
import pytest
import tiny_tokenizers
import torch
import transformers
from click.testing import CliRunner
from helpers.row import DESCRIBE, Row
from helpers.rows import READ
from PIL import Image

from txexport import export, load
from txexport.cli.main import main
from txexport.errors import InputError

MODEL = "vision-encoder-decoder"
TROCR = Row(MODEL, "VisionEncoderDecoderModel", DESCRIBE, "TrOCR", READ)
OPTIONS = [{}, {"num_beams": 3}, {"num_beams": 2, "length_penalty": 0.4, "repetition_penalty": 1.3}]


@pytest.fixture(scope="module")
def captions(checkpoint_of, tmp_path_factory):
    """A model, its checkpoint, and five images of several sizes."""
    folder = tmp_path_factory.mktemp("captions")
    shutil.copytree(checkpoint_of(TROCR), folder / "in", dirs_exist_ok=True)
    tiny_tokenizers.byte_level().save_pretrained(folder / "in")
    transformers.ViTImageProcessorPil(size={"height": 30, "width": 30}).save_pretrained(folder / "in")
    export(folder / "in", folder / "out", only="native")
    rng = np.random.default_rng(3)
    images = [rng.integers(0, 256, (37 + i, 53 - i, 3), np.uint8) for i in range(5)]
    return load(folder / "out", device="cpu", threads=1), folder / "in", images


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_what_an_image_says_equals_transformers(options, captions):
    model, folder, images = captions
    original = transformers.VisionEncoderDecoderModel.from_pretrained(folder).eval()
    processor = transformers.AutoImageProcessor.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pixels = processor(list(map(Image.fromarray, images)), return_tensors="pt").pixel_values
    with torch.no_grad():
        tokens = original.generate(pixels, max_new_tokens=9, **options)
    wanted = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    assert len(set(wanted)) > 1
    found = model.image_to_text(images, max_new_tokens=9, **options)
    assert found == wanted == model.generate(images, max_new_tokens=9, **options)
    assert model.image_to_text(images[1], max_new_tokens=9, **options) == wanted[1]
    assert model.image_to_text(images, max_new_tokens=9, batch_tokens=1, **options) == wanted


def test_a_stream_and_a_command_give_the_same(captions, tmp_path):
    model, _, images = captions
    [expected] = model.image_to_text(images[:1], max_new_tokens=7)
    assert "".join(model.stream(images[0], max_new_tokens=7)) == expected
    Image.fromarray(images[0]).save(tmp_path / "a.png")
    command = ["image-to-text", str(model.folder), str(tmp_path / "a.png"), "--max-new-tokens", "7"]
    result = CliRunner().invoke(main, [*command, "--json"], catch_exceptions=False)
    assert json.loads(result.stdout) == {"image": str(tmp_path / "a.png"), "text": expected}


def test_what_is_not_asked_of_images_is_one_line(captions):
    model, _, images = captions
    with pytest.raises(InputError, match="num_return_sequences must be 1, and is 2"):
        model.image_to_text(images[0], num_beams=2, num_return_sequences=2)
    with pytest.raises(InputError, match="a model of images scores no texts; it has image_to_text"):
        model.score("the cat", "a dog")
    with pytest.raises(InputError, match=r"pixels are \(3, 7, 30\), expected \(3, 30, 30\)"):
        model.generate_ids([np.zeros((3, 7, 30), np.float32)])
    assert model.image_to_text([]) == []
