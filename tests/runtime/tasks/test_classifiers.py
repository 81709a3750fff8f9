"""Labels of images against the pipeline of transformers, over photographs of odd sizes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tiny_checkpoint
import transformers
from PIL import Image

import txexport

SIZES = [(53, 37), (37, 53), (64, 64), (96, 33), (33, 96), (101, 100), (31, 150), (7, 9)]
LABELS = ["cat", "dog", "hen", "cow", "ant"]
# Model type, class, image processor and its settings.
SQUARE = {"size": {"height": 30, "width": 30}}
CLASSIFIERS = {
    "vit_msn": ("ViTMSNForImageClassification", "ViTImageProcessorPil", SQUARE),
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
