"""Sentence vectors against sentence-transformers: every way of pooling, and dense layers after it."""

import json
import shutil

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
from helpers.bundle_edits import relist
from safetensors.numpy import save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules
from tiny_pickled import pickled

import txexport
from txexport.errors import BundleError, CheckpointError, InputError
from txexport.runtime.vectors.pooling import METHODS

TEXTS = ["the cat sat on the mat", "far", "Anna lives in Paris, and works for the dog"]


@pytest.fixture(scope="module")
def sentence_encoder(tmp_path_factory):
    """A function from a model_type and modules to a folder of sentence-transformers, and its model."""

    def make(model_type: str, architecture: str, *parts, **config) -> tuple:
        folder = tmp_path_factory.mktemp("sentences")
        tiny_checkpoint.save(folder / "encoder", model_type, architecture, **config)
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


def test_last_token_of_a_decoder_whose_tokenizer_pads_on_the_left(tmp_path):
    """As Qwen3-Embedding, which is published as a language model."""
    tiny_checkpoint.save(tmp_path / "encoder", "qwen3")
    tokenizer = tiny_tokenizers.byte_level()
    tokenizer.padding_side = "left"
    tokenizer.save_pretrained(tmp_path / "encoder")
    parts = modules.Transformer(str(tmp_path / "encoder")), modules.Pooling(48, "lasttoken")
    original = SentenceTransformer(modules=[*parts, modules.Normalize()], device="cpu")
    original.save(str(tmp_path / "saved"))
    assert equal(tmp_path / "saved", original, tmp_path / "out")


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


def test_embeddinggemma(sentence_encoder, tmp_path):
    """A decoder that looks both ways, and two dense layers behind the mean."""
    widths = [(48, 60), (60, 48)]
    layers = [
        lambda pair=pair: modules.Dense(*pair, bias=False, activation_function=torch.nn.Identity())
        for pair in widths
    ]
    parts = lambda: modules.Pooling(48, "mean"), *layers, modules.Normalize
    folder, original = sentence_encoder(
        "gemma3_text", "Gemma3TextModel", *parts, use_bidirectional_attention=True
    )
    assert equal(folder, original, tmp_path / "out")


@pytest.fixture(scope="module")
def with_dense(sentence_encoder):
    """A folder whose third module is a dense layer."""
    return sentence_encoder("bert", "BertModel", lambda: modules.Pooling(48, "mean"), LAYERS["tanh"])[0]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"activation_function": "torch.nn.modules.activation.ReLU"}, "ReLU' is not supported"),
        ({"use_residual": True}, "use_residual=True is not supported"),
        ({"module_output_name": "other"}, "module_output_name='other' is not supported"),
        ({"dropout": 0.1}, "dropout=0.1 is not supported"),
    ],
    ids=str,
)
def test_dense_layers_that_do_more_are_refused(setting, said, with_dense, tmp_path):
    folder = shutil.copytree(with_dense, tmp_path / "in")
    [file] = folder.glob("*_Dense/config.json")
    file.write_text(json.dumps(json.loads(file.read_text()) | setting))
    txexport.export(folder, tmp_path / "out")
    with pytest.raises(BundleError, match=said):
        txexport.load(tmp_path / "out", device="cpu").embed(TEXTS)


def test_dense_layers_without_weights_are_not_exported(with_dense, tmp_path):
    folder = shutil.copytree(with_dense, tmp_path / "in")
    [file] = folder.glob("*_Dense/model.safetensors")
    file.unlink()
    with pytest.raises(CheckpointError, match=r"_Dense has no weights \(expected model.safetensors or"):
        txexport.export(folder, tmp_path / "out")
    save_file({"weight": np.zeros((2, 3), np.float32)}, file)
    with pytest.raises(CheckpointError, match=r"_Dense has no tensor linear\.weight"):
        txexport.export(folder, tmp_path / "out")


def test_dense_layers_as_they_were_published_before_safetensors(with_dense, tmp_path):
    folder = shutil.copytree(with_dense, tmp_path / "in")
    txexport.export(folder, tmp_path / "expected")
    [dense] = folder.glob("*_Dense")
    pickled(dense, legacy=True)
    txexport.export(folder, tmp_path / "out")
    ours, theirs = (tmp_path / name / dense.name / "dense.npz" for name in ("out", "expected"))
    assert ours.read_bytes() == theirs.read_bytes()


def test_dense_layers_of_another_width(with_dense, tmp_path):
    folder = shutil.copytree(with_dense, tmp_path / "in")
    [file] = folder.glob("*_Dense/model.safetensors")
    save_file({"linear.weight": np.zeros((31, 47), np.float32)}, file)
    txexport.export(folder, tmp_path / "out")
    with pytest.raises(BundleError, match="a dense layer takes vectors of 47 numbers, and gets 48"):
        txexport.load(tmp_path / "out", device="cpu").embed(TEXTS)
    (tmp_path / "out" / file.parent.name / "dense.npz").write_bytes(b"damaged")
    with pytest.raises(BundleError, match=r"dense\.npz cannot be read as \.npz of arrays"):
        txexport.load(tmp_path / "out", device="cpu", check=False).embed(TEXTS)


def test_a_dense_layer_of_other_numbers_is_no_export(with_dense, tmp_path):
    """The checkpoint has it in another form, so verify makes it again."""
    out = tmp_path / "out"
    txexport.export(with_dense, out)
    assert txexport.verify(out, reference="twin", cases=["manifest and copied files"]).ok
    [file] = out.glob("*_Dense/dense.npz")
    arrays = dict(np.load(file))
    np.savez(file, **arrays | {"bias": arrays["bias"] + 1})
    [case] = txexport.verify(relist(out), reference="twin", cases=["manifest and copied files"]).failed
    name = file.relative_to(out).as_posix()
    assert case.exception.endswith(f"{name} is not the file that export makes of the checkpoint")


PROMPTS = {"query": "the question is ", "document": "", "Anna": "Anna works: "}


@pytest.mark.parametrize("method", ["cls", "mean", "max", "lasttoken"])
@pytest.mark.parametrize("pooled", [True, False], ids=["pooled", "left out"])
def test_prompts_go_before_texts(method, pooled, sentence_encoder, tmp_path):
    """By name, by the checkpoint's choice, or as they are given; in the vector, or left out of it."""
    folder, original = sentence_encoder(
        "bert", "BertModel", lambda: modules.Pooling(48, method, include_prompt=pooled)
    )
    original.prompts, original.default_prompt_name = PROMPTS, "Anna"
    original.save(str(folder))
    txexport.export(folder, tmp_path / "out", task="feature-extraction", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    vectors = {}
    for chosen in ({}, {"prompt_name": "query"}, {"prompt_name": "document"}, {"prompt": "far, "}):
        found, expected = model.embed(TEXTS, **chosen), original.encode(TEXTS, **chosen)
        assert np.abs(found - expected).max() < 1e-5, chosen
        vectors[str(chosen)] = found
    pairs = [np.abs(one - other).max() for one in vectors.values() for other in vectors.values()]
    assert sum(pair > 1e-3 for pair in pairs) == 12
    with pytest.raises(InputError, match="'x' is not known; expected one of Anna, document, query"):
        model.embed(TEXTS, prompt_name="x")
    with pytest.raises(InputError, match="expected one text"):
        model.embed(TEXTS, prompt_name="query", prompt="x")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"default_prompt_name": "x"}, "default_prompt_name is 'x', expected one of prompts"),
        ({"default_prompt_name": {"query": ""}}, "default_prompt_name is .* expected one of prompts"),
        ({"prompts": {"query": 5}}, "prompts is .* expected texts by name"),
        ({"prompts": ["a"]}, "prompts is .* expected texts by name"),
    ],
    ids=str,
)
def test_prompts_that_are_none_are_named(setting, said, with_dense, tmp_path):
    folder = shutil.copytree(with_dense, tmp_path / "in")
    file = folder / "config_sentence_transformers.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | setting))
    txexport.export(folder, tmp_path / "out", only="native")
    with pytest.raises(BundleError, match=said):
        txexport.load(tmp_path / "out", device="cpu").embed(TEXTS)


@pytest.mark.parametrize("normalized", [True, False], ids=["normalised", "not"])
def test_the_first_numbers_of_a_vector(normalized, sentence_encoder, tmp_path):
    """As truncate_dim of sentence-transformers, which leaves them as they are unless it is asked."""
    parts = [lambda: modules.Pooling(48, "mean"), *([modules.Normalize] if normalized else [])]
    folder, original = sentence_encoder("bert", "BertModel", *parts)
    txexport.export(folder, tmp_path / "out", task="feature-extraction", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    for width in (1, 7, 48):
        for normalize in (None, True):
            found = model.embed(TEXTS, truncate_dim=width, normalize=normalize)
            expected = original.encode(TEXTS, truncate_dim=width, normalize_embeddings=normalize is True)
            assert found.shape == expected.shape == (3, width)
            assert np.abs(found - expected).max() < 1e-5
    with pytest.raises(InputError, match="truncate_dim is 49, and vectors have 48 numbers"):
        model.embed(TEXTS, truncate_dim=49)


@pytest.mark.parametrize("order", [(0, 2, 1), (0, 1, 3, 2)], ids=["before pooling", "after normalising"])
def test_modules_in_another_order_are_refused(order, with_dense, tmp_path):
    folder = shutil.copytree(with_dense, tmp_path / "in")
    named = json.loads((folder / "modules.json").read_text())
    named.append({"type": "sentence_transformers.models.Normalize", "path": ""})
    (folder / "modules.json").write_text(json.dumps([named[place] for place in order]))
    txexport.export(folder, tmp_path / "out")
    with pytest.raises(BundleError, match=r"module Dense is not supported; expected .* in this order"):
        txexport.load(tmp_path / "out", device="cpu").embed(TEXTS)
