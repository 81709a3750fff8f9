"""SigLIP 2 with images of any shape against the pipeline of transformers, over images of odd sizes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from helpers.tokenizer_folders import KINDS, tokenizer_of
from PIL import Image

import txexport

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (31, 150), (7, 9), (240, 320)]
TEXTS = ["Anna", "the CAT sat on the mat", "don't"]


@dataclass(frozen=True)
class Matcher:
    """Our model, the original, its processor and its tokenizer."""

    model: txexport.Model
    original: Any
    processor: Any
    tokenizer: Any

    def vectors(self, images):
        with torch.no_grad():
            inputs = self.processor(images, return_tensors="pt")
            features = self.original.get_image_features(**inputs).pooler_output
        return (features / features.norm(dim=-1, keepdim=True)).numpy()


@pytest.fixture(scope="module", params=["masked padding", "padding that is read"])
def matcher(request, tmp_path_factory):
    folder, kind = tmp_path_factory.mktemp("naflex"), "Siglip2Tokenizer"
    tokenizer = tokenizer_of(*KINDS[kind])
    vocab_size = tokenizer.get_vocab_size()
    tiny_checkpoint.save(
        folder / "in", "siglip2", text_config={"vocab_size": vocab_size, "max_position_embeddings": 64}
    )
    read = ["input_ids"] if request.param == "padding that is read" else ["input_ids", "attention_mask"]
    settings = {"model_input_names": read, "padding_side": "right"}
    transformers.GemmaTokenizer(tokenizer_object=tokenizer, **settings).save_pretrained(folder / "in")
    processor = transformers.Siglip2ImageProcessorPil(patch_size=6, max_num_patches=30)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    original = transformers.Siglip2Model.from_pretrained(folder / "in").eval()
    model = txexport.load(folder / "out", device="cpu")
    return Matcher(model, original, processor, transformers.AutoTokenizer.from_pretrained(folder / "in"))


@pytest.fixture(scope="module")
def images():
    random = np.random.default_rng(5)
    coarse = [Image.fromarray(random.integers(0, 256, (5, 4, 3), np.uint8)) for _ in SIZES]
    return [one.resize((width, height)) for one, (height, width) in zip(coarse, SIZES, strict=True)]


@pytest.mark.parametrize("batch_size", [1, 4, 9])
def test_scores_equal_the_pipeline(batch_size, matcher, images):
    """Images of several shapes are read together, texts padded to one length and in lower case."""
    pipeline = transformers.pipeline(
        "zero-shot-image-classification",
        model=matcher.original,
        image_processor=matcher.processor,
        tokenizer=matcher.tokenizer,
    )
    answers = matcher.model.match(images, TEXTS, batch_size=batch_size)
    expected = pipeline(images, candidate_labels=TEXTS, hypothesis_template="{}")
    for ours, theirs in zip(answers, expected, strict=True):
        assert [one["label"] for one in ours] == [one["label"] for one in theirs]
        scores = [[one["score"] for one in answer] for answer in (ours, theirs)]
        assert np.allclose(*scores, rtol=0, atol=1e-5)


def test_vectors_of_images_do_not_depend_on_the_batch(matcher, images):
    together, expected = matcher.model.embed_image(images), matcher.vectors(images)
    assert np.abs(together - expected).max() < 1e-5
    alone_each = np.stack([matcher.model.embed_image(image) for image in images])
    assert np.abs(together - alone_each).max() < 1e-5
    assert np.abs(together[0] - together[1]).max() > 1e-3


def test_vectors_of_texts(matcher):
    inputs = matcher.tokenizer(
        TEXTS, padding="max_length", max_length=64, truncation=True, return_tensors="pt"
    )
    with torch.no_grad():
        features = matcher.original.get_text_features(**inputs).pooler_output
    expected = (features / features.norm(dim=-1, keepdim=True)).numpy()
    assert np.abs(matcher.model.embed(TEXTS) - expected).max() < 1e-5
    assert np.abs(matcher.model.embed("THE CAT") - matcher.model.embed("the cat")).max() == 0
