"""Sentence vectors against sentence-transformers: every way of pooling, and dense layers after it."""

import json
import shutil

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules

import txexport
from txexport.errors import BundleError
from txexport.runtime.pooling import METHODS

TEXTS = ["the cat sat on the mat", "far", "Anna lives in Paris, and works for the dog"]


@pytest.fixture(scope="module")
def sentence_encoder(tmp_path_factory):
    """A function from a model_type and modules to a folder of sentence-transformers, and its model."""

    def make(model_type: str, architecture: str, *parts) -> tuple:
        folder = tmp_path_factory.mktemp("sentences")
        tiny_checkpoint.save(folder / "encoder", model_type, architecture)
        tiny_tokenizers.wordpiece().save_pretrained(folder / "encoder")
        torch.manual_seed(0)
        made = SentenceTransformer(
            modules=[modules.Transformer(str(folder / "encoder")), *(part() for part in parts)], device="cpu"
        )
        made.save(str(folder / "saved"))
        return folder / "saved", made

    return make


def equal(folder, original, out) -> bool:
    txexport.export(folder, out, task="feature-extraction")
    found, expected = txexport.load(out, device="cpu").embed(TEXTS), original.encode(TEXTS)
    return found.shape == expected.shape and np.abs(found - expected).max() < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_every_way_of_pooling(method, sentence_encoder, tmp_path):
    folder, original = sentence_encoder("bert", "BertModel", lambda: modules.Pooling(48, method))
    assert equal(folder, original, tmp_path / "out")


LAYERS = {
    "tanh": lambda: modules.Dense(48, 31),
    "plain": lambda: modules.Dense(48, 31, bias=False, activation_function=torch.nn.Identity()),
}


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("family", [("bert", "BertModel"), ("t5", "T5EncoderModel")], ids=lambda row: row[0])
def test_dense_layers(family, kind, sentence_encoder, tmp_path):
    parts = lambda: modules.Pooling(48, "mean"), LAYERS[kind], modules.Normalize
    folder, original = sentence_encoder(*family, *parts)
    assert equal(folder, original, tmp_path / "out")
    vectors = txexport.load(tmp_path / "out", device="cpu").embed(TEXTS, normalize=False)
    assert abs(np.linalg.norm(vectors, axis=1) - 1).max() > 0.01
    assert txexport.verify(tmp_path / "out", cases="quick").ok


def test_dense_layers_that_cannot_be(sentence_encoder, tmp_path):
    folder, _ = sentence_encoder("bert", "BertModel", lambda: modules.Pooling(48, "mean"), LAYERS["tanh"])
    [dense] = folder.glob("*_Dense")
    config = json.loads((dense / "config.json").read_text())
    for i, (edit, said) in enumerate(
        [
            (
                lambda copy: (copy / "config.json").write_text(
                    json.dumps(config | {"activation_function": "a.ReLU"})
                ),
                "activation ReLU is not supported; expected Identity or Tanh",
            ),
            (
                lambda copy: (copy / "model.safetensors").unlink(),
                "a dense layer of sentence vectors cannot be read",
            ),
        ]
    ):
        copy = shutil.copytree(folder, tmp_path / f"copy{i}")
        edit(copy / dense.name)
        txexport.export(copy, tmp_path / f"out{i}")
        with pytest.raises(BundleError, match=said):
            txexport.load(tmp_path / f"out{i}", device="cpu").embed(TEXTS)
