"""Labels of images against the pipeline of transformers, over photographs of odd sizes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import torch
import transformers
from PIL import Image

import txexport
from txexport.errors import InputError

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (31, 150), (7, 9)]
LABELS = ["cat", "dog", "hen", "cow", "ant"]
# Model type, class, image processor and its settings.
SQUARE = {"size": {"height": 30, "width": 30}}
CLASSIFIERS = {
    "vit_msn": ("ViTMSNForImageClassification", "ViTImageProcessorPil", SQUARE),
    "resnet": (
        "ResNetForImageClassification",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": 96}},
    ),
    "hiera": (
        "HieraForImageClassification",
        "BitImageProcessorPil",
        {"size": {"shortest_edge": 73}, "crop_size": {"height": 64, "width": 64}},
    ),
    "convnext": (
        "ConvNextForImageClassification",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": 384}},
    ),
    "convnextv2": (
        "ConvNextV2ForImageClassification",
        "ConvNextImageProcessorPil",
        {"size": {"shortest_edge": 75}, "crop_pct": 0.95},
    ),
    "ijepa": ("IJepaForImageClassification", "ViTImageProcessorPil", SQUARE | {"resample": 3}),
}


@dataclass(frozen=True)
class Classifier:
    """Our model, and the pipeline of the original."""

    model: txexport.Model
    pipeline: Any


@pytest.fixture(scope="module", params=CLASSIFIERS)
def classifier(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    architecture, kind, settings = CLASSIFIERS[request.param]
    named = {"id2label": dict(enumerate(LABELS)), "label2id": {name: n for n, name in enumerate(LABELS)}}
    tiny_checkpoint.save(folder / "in", request.param, architecture, **named)
    processor = getattr(transformers, kind)(**settings)
    processor.save_pretrained(folder / "in")
    txexport.export(folder / "in", folder / "out", only="native")
    original = getattr(transformers, architecture).from_pretrained(folder / "in").eval()
    pipeline = transformers.pipeline("image-classification", model=original, image_processor=processor)
    return Classifier(txexport.load(folder / "out", device="cpu"), pipeline)


def test_labels_equal_the_pipeline(classifier):
    rng = np.random.default_rng(5)
    for height, width in SIZES:
        coarse = Image.fromarray(rng.integers(0, 256, (5, 4, 3), np.uint8))
        image = coarse.resize((width, height))
        ours, expected = classifier.model.classify_image(image), classifier.pipeline(image)
        assert [one["label"] for one in ours] == [one["label"] for one in expected]
        scores = [[one["score"] for one in answer] for answer in (ours, expected)]
        assert np.allclose(*scores, rtol=0, atol=1e-5)


@pytest.mark.parametrize("model_type", ["resnet", "convnext", "convnextv2"])
def test_vectors_of_convolutions(model_type, tmp_path):
    """The pooled vector, or the mean of the last map, whose rows and columns no token precedes."""
    tiny_checkpoint.save(tmp_path / "in", model_type)
    processor = transformers.ConvNextImageProcessorPil(size={"shortest_edge": 96})
    processor.save_pretrained(tmp_path / "in")
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    rng = np.random.default_rng(5)
    images = [rng.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]
    original = transformers.AutoModel.from_pretrained(tmp_path / "in").eval()
    pixels = [processor(image, return_tensors="pt", input_data_format="channels_last") for image in images]
    with torch.no_grad():
        answers = [original(**one) for one in pixels]
    pooled = np.stack([one.pooler_output.flatten() for one in answers])
    means = np.stack([one.last_hidden_state.mean(dim=(0, 2, 3)) for one in answers])
    assert np.allclose(model.embed_image(images), pooled, rtol=0, atol=1e-4)
    assert np.allclose(model.embed_image(images, pooling="mean"), means, rtol=0, atol=1e-4)
    assert model.embed_image([], pooling="mean").shape == (0, pooled.shape[1])
    with pytest.raises(InputError, match="pooling is 'cls', expected mean or pooler"):
        model.embed_image(images, pooling="cls")
