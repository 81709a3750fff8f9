"""The longest text that a checkpoint's files allow, and where it is cut: as the library that owns it does."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from helpers.bundle_edits import relist
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer import modules

import txexport
from txexport.errors import BundleError, InputError
from txexport.runtime.preprocessing.text import Text
from txexport.runtime.preprocessing.text_length import read_max_length

LONG = " ".join(["the cat sat on the mat and the dog lay on the rug"] * 3)


def write(folder: Path, **files: dict) -> Path:
    for name, values in files.items():
        (folder / f"{name}.json").write_text(json.dumps(values))
    return folder


@pytest.fixture(scope="module")
def sentences(tmp_path_factory) -> Path:
    """A sentence-transformers model of version 6, that reads 12 tokens of 40."""
    folder = tmp_path_factory.mktemp("sentences")
    tiny_checkpoint.save(folder / "encoder", "bert", "BertModel")
    tiny_tokenizers.wordpiece().save_pretrained(folder / "encoder")
    made = SentenceTransformer(
        modules=[modules.Transformer(str(folder / "encoder")), modules.Pooling(48, "mean")], device="cpu"
    )
    made.max_seq_length = 12
    made.save(str(folder / "saved"))
    return folder / "saved"


@pytest.fixture(scope="module")
def bundle(sentences, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("bundle") / "out"
    txexport.export(sentences, out, task="feature-extraction", only="native")
    return out


@pytest.mark.parametrize("older", [None, 8])
def test_texts_are_cut_where_sentence_transformers_cuts_them(sentences, bundle, older, tmp_path):
    """Its older file goes before the tokenizer's, which version 6 writes."""
    if older is not None:
        settings = json.loads((sentences / "sentence_bert_config.json").read_text())
        write(sentences, sentence_bert_config=settings | {"max_seq_length": older})
        bundle = tmp_path / "out"
        txexport.export(sentences, bundle, task="feature-extraction", only="native")
        write(sentences, sentence_bert_config=settings)
        expected = SentenceTransformer(str(sentences), device="cpu")
        expected.max_seq_length = older
    else:
        expected = SentenceTransformer(str(sentences), device="cpu")
    with txexport.load(bundle, device="cpu") as model:
        found = model.embed(LONG, truncate=True)
        assert np.abs(found - expected.encode(LONG)).max() < 1e-5
        with pytest.raises(InputError, match=f"is longer than {older or 12}; shorten it, or cut it"):
            model.embed(LONG)


def test_a_cross_encoder_cuts_its_pairs(tmp_path):
    tiny_checkpoint.save(tmp_path / "model", "bert", "BertForSequenceClassification", num_labels=1)
    tokenizer = tiny_tokenizers.wordpiece()
    tokenizer.model_max_length = 14
    tokenizer.save_pretrained(tmp_path / "model")
    CrossEncoder(str(tmp_path / "model"), device="cpu").save_pretrained(str(tmp_path / "saved"))
    txexport.export(tmp_path / "saved", tmp_path / "out", only="native")
    expected = CrossEncoder(str(tmp_path / "saved"), device="cpu").predict([("the cat", LONG)])[0]
    with txexport.load(tmp_path / "out", device="cpu") as model:
        assert abs(model.rerank("the cat", [LONG], truncate=True)[0]["score"] - expected) < 1e-6
        with pytest.raises(InputError, match="is longer than 14"):
            model.classify([("the cat", LONG)])


def test_a_cross_encoder_s_scores_are_read_beside_its_modules(tmp_path):
    """A lone config_sentence_transformers.json says nothing of them, as in sentence-transformers 6."""
    tiny_checkpoint.save(tmp_path / "model", "bert", "BertForSequenceClassification", num_labels=1)
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path / "model")
    made = CrossEncoder(str(tmp_path / "model"), device="cpu", activation_fn=torch.nn.Identity())
    made.save_pretrained(str(tmp_path / "saved"))
    scores = {}
    for name in ("saved", "lone"):
        folder = tmp_path / name
        if name == "lone":
            shutil.copytree(tmp_path / "saved", folder)
            (folder / "modules.json").unlink()
            config = json.loads((folder / "config.json").read_text())
            config.pop("sentence_transformers", None)
            (folder / "config.json").write_text(json.dumps(config))
        expected = CrossEncoder(str(folder), device="cpu").predict([("the cat", "a dog")])[0]
        txexport.export(folder, tmp_path / f"{name}-bundle", only="native")
        with txexport.load(tmp_path / f"{name}-bundle", device="cpu") as model:
            [scores[name]] = (row["score"] for row in model.rerank("the cat", ["a dog"]))
        assert scores[name] == pytest.approx(expected, abs=1e-5)
    assert scores["saved"] != pytest.approx(scores["lone"], abs=1e-3)


def test_positions_are_the_limit_where_the_files_set_a_greater_one(bundle, tmp_path):
    for value in (1000, 1e30, None):
        write(tmp_path, tokenizer_config={"model_max_length": value})
        assert read_max_length(tmp_path) == (1000 if value == 1000 else None)
    assert read_max_length(write(tmp_path, tokenizer_config={"max_len": 77})) == 77
    assert read_max_length(write(tmp_path, tokenizer_config={"max_len": 77, "model_max_length": 9.0})) == 9
    assert read_max_length(write(tmp_path, tokenizer_config={"max_len": 7}, sentence_bert_config={})) == 7


@pytest.mark.parametrize("value", ["16", 0, -1, 2.5, True])
def test_a_limit_that_is_no_number(value, tmp_path):
    with pytest.raises(BundleError, match=r"tokenizer_config\.json: model_max_length is .* at least 1"):
        read_max_length(write(tmp_path, tokenizer_config={"model_max_length": value}))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("place", ["tokenizer.json", "tokenizer_config.json"])
def test_texts_and_pairs_are_cut_on_the_tokenizer_s_side(side, place, tmp_path):
    tokenizer = tiny_tokenizers.wordpiece()
    tokenizer.save_pretrained(tmp_path)
    if place == "tokenizer.json":
        backend = tokenizer.backend_tokenizer
        backend.enable_truncation(30, direction=side)
        backend.save(str(tmp_path / place))
        settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
        settings.pop("truncation_side", None)
    else:
        settings = json.loads((tmp_path / place).read_text()) | {"truncation_side": side}
    write(tmp_path, tokenizer_config=settings)
    original = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert original.truncation_side == side
    items = [LONG, ("the dog", LONG), (LONG, "far")]
    found = Text(tmp_path).encode(items, 11)
    for item, encoding in zip(items, found, strict=True):
        texts = (item,) if isinstance(item, str) else item
        assert encoding.ids == original(*texts, truncation=True, max_length=11)["input_ids"]


def test_special_tokens_are_text_where_the_settings_say_so(tmp_path):
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    write(tmp_path, tokenizer_config=settings | {"split_special_tokens": True})
    original = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for size in (None, 6):
        [found] = Text(tmp_path).encode(["a [MASK] cat [SEP] dog"], size)
        cut = {} if size is None else {"truncation": True, "max_length": size}
        assert found.ids == original("a [MASK] cat [SEP] dog", **cut)["input_ids"]


def test_special_tokens_map_goes_before_tokenizer_config(tmp_path):
    """Unless that lists all added tokens."""
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for listed in (False, True):
        given = {name: value for name, value in settings.items() if name != "added_tokens_decoder"}
        if listed:
            special = {"content": "[MASK]", "special": True, "normalized": False, "lstrip": False}
            given["added_tokens_decoder"] = {"4": special | {"rstrip": False, "single_word": False}}
        write(tmp_path, tokenizer_config=given, special_tokens_map={"mask_token": "[UNK]"})
        original = transformers.AutoTokenizer.from_pretrained(tmp_path)
        assert Text(tmp_path).special("mask_token")[0] == original.mask_token == ["[UNK]", "[MASK]"][listed]


def test_lower_case_leaves_special_tokens(sentences, tmp_path):
    """As sentence-transformers 6, whose setting is a normalizer of the tokenizer."""
    settings = json.loads((sentences / "sentence_bert_config.json").read_text())
    config = json.loads((sentences / "tokenizer_config.json").read_text())
    file = json.loads((sentences / "tokenizer.json").read_text())
    before = dict(file)
    file["normalizer"] = None
    write(
        sentences,
        sentence_bert_config=settings | {"do_lower_case": True},
        tokenizer=file,
        tokenizer_config=config | {"tokenizer_class": "PreTrainedTokenizerFast"},
    )
    txexport.export(sentences, tmp_path / "out", task="feature-extraction", only="native")
    expected = SentenceTransformer(str(sentences), device="cpu")
    with txexport.load(tmp_path / "out", device="cpu") as model:
        for text in ("The CAT [MASK] sat", "ANNA [SEP] Far"):
            assert np.abs(model.embed(text) - expected.encode(text)).max() < 1e-5
    write(sentences, sentence_bert_config=settings, tokenizer=before, tokenizer_config=config)


@pytest.mark.parametrize("forced", [False, True])
@pytest.mark.parametrize("kind", ["wordpiece", "byte_level"])
def test_spaces_are_taken_out_of_decoded_text_where_transformers_does(kind, forced, tmp_path):
    getattr(tiny_tokenizers, kind)().save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    name = "clean_up_tokenization_spaces"
    asked = {name: 1, f"{name}_for_bpe_even_though_it_will_corrupt_output": forced}
    write(tmp_path, tokenizer_config=settings | asked)
    original, text = transformers.AutoTokenizer.from_pretrained(tmp_path), Text(tmp_path)
    rows = [encoding.ids for encoding in text.encode(["the cat , the dog . don 't", "a ! b ?"])]
    assert text.decode(rows) == original.batch_decode(rows, skip_special_tokens=True)


def test_padding_stands_where_the_tokenizer_puts_it(tmp_path):
    """SigLIP's texts are all of one length, and the model reads the padding."""
    from txexport.runtime.batches import to_one_length

    tiny_tokenizers.wordpiece().save_pretrained(tmp_path)
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text())
    for side in ("left", "right"):
        write(tmp_path, tokenizer_config=settings | {"padding_side": side})
        original = transformers.AutoTokenizer.from_pretrained(tmp_path)
        wanted = original(["the cat", "far"], padding="max_length", max_length=9, return_tensors="np")
        text = Text(tmp_path)
        rows = [encoding.ids for encoding in text.encode(["the cat", "far"])]
        ids, mask = to_one_length(text, rows, 9, 1000)
        np.testing.assert_array_equal(ids, wanted["input_ids"])
        np.testing.assert_array_equal(mask, wanted["attention_mask"])


def test_windows_of_questions_keep_to_the_limit(tmp_path):
    torch.manual_seed(0)
    tiny_checkpoint.save(tmp_path / "model", "bert", "BertForQuestionAnswering")
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path / "model")
    txexport.export(tmp_path / "model", tmp_path / "out", only="native")
    settings = json.loads((tmp_path / "out/tokenizer_config.json").read_text())
    write(tmp_path / "out", tokenizer_config=settings | {"model_max_length": 13})
    relist(tmp_path / "out")
    with txexport.load(tmp_path / "out", device="cpu") as model:
        default = model.answer("the cat", LONG, top_k=3, doc_stride=2)
        assert default == model.answer("the cat", LONG, top_k=3, max_seq_len=13, doc_stride=2)
        assert default != model.answer("the cat", LONG, top_k=3, max_seq_len=30, doc_stride=2)
