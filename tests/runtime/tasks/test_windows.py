"""Images through Swin: labels and vectors as the library's pipelines give them, for files of any size."""

import numpy as np
import pytest
import tiny_checkpoint
import transformers
from PIL import Image

import txexport

SIZES = [(40, 40), (17, 90), (123, 31), (64, 65), (1, 1), (50, 49), (200, 7), (33, 320)]
PROCESSOR = {"size": {"height": 45, "width": 62}, "image_mean": [0.485, 0.456, 0.406], "resample": 3}


@pytest.fixture(scope="module")
def images() -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (*size, 3)).astype(np.uint8)) for size in SIZES]


@pytest.fixture(params=["swin", "swinv2"])
def case(request, tmp_path):
    """A checkpoint of a kind for an architecture, and our model of it; its processor makes oblong images."""

    def get(architecture: str, **config):
        name = f"{'Swinv2' if request.param == 'swinv2' else 'Swin'}{architecture}"
        tiny_checkpoint.save(tmp_path / "in", request.param, name, **config)
        transformers.ViTImageProcessorPil(**PROCESSOR).save_pretrained(tmp_path / "in")
        txexport.export(tmp_path / "in", tmp_path / "out")
        return str(tmp_path / "in"), txexport.load(tmp_path / "out", device="cpu")

    return get


def test_labels_equal_the_pipeline(case, images):
    folder, model = case("ForImageClassification", num_labels=7)
    judge = transformers.pipeline("image-classification", model=folder, device="cpu")
    for ours, image in zip(model.classify_image(images, batch_size=3), images, strict=True):
        theirs = judge(image, top_k=5)
        assert [one["label"] for one in ours] == [one["label"] for one in theirs]
        assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-5)


def test_vectors_equal_the_pipeline(case, images):
    """The mean of the last stage's vectors, which is the original's pooler."""
    folder, model = case("Model")
    judge = transformers.pipeline("image-feature-extraction", model=folder, device="cpu", pool=True)
    theirs = np.array([judge(image)[0] for image in images])
    ours = model.embed_image(images, batch_size=3)
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()
    assert np.abs(model.embed_image(images, pooling="mean") - theirs).max() < 1e-5 * np.abs(theirs).max()
