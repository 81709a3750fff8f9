"""Vectors of tokens and late interaction, beside transformers with plain torch, and sentence-transformers."""

import json
import string
from itertools import pairwise
from pathlib import Path

import httpx
import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
from click.testing import CliRunner
from helpers.bundle_edits import relist
from helpers.serving import running
from safetensors.numpy import load_file, save_file
from sentence_transformers import MultiVectorEncoder
from transformers import AutoModel, AutoTokenizer

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, CheckpointError, InputError, UnsupportedError

TEXTS = [
    "the cat sat on the mat",
    "far",
    "Anna lives in Paris, and works for the dog.",
    "the rug: is it far?",
]
FAMILIES = {
    "bert": ("BertModel", "wordpiece"),
    "roberta": ("RobertaModel", "byte_level"),
    "modernbert": ("ModernBertModel", "byte_level"),
    "fnet": ("FNetModel", "wordpiece"),  # reads padding: every document is alone
    "qwen3": ("Qwen3Model", "byte_level"),  # no mask among its tokens: the end of a text fills queries up
}
SETTINGS = {
    "query_prefix": "[Q] ",
    "document_prefix": "[D] ",
    "query_length": 28,
    "document_length": 30,
    "do_query_expansion": True,
    "attend_to_expansion_tokens": False,
    "skiplist_words": list(string.punctuation),
}
IDENTITY = "torch.nn.modules.linear.Identity"
DENSE = {"in_features": 48, "out_features": 31, "bias": False, "activation_function": IDENTITY}
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
]


def write(file: Path, value) -> None:
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(value), encoding="utf-8")


def encoder(folder: Path, model_type: str, prefixes: list[str]) -> np.ndarray:
    """A checkpoint whose tokenizer knows punctuation and prefixes; the layer's weight (31, 48)."""
    architecture, kind = FAMILIES[model_type]
    tiny_checkpoint.save(folder, model_type, architecture)
    tokenizer = getattr(tiny_tokenizers, kind)()
    unknown = tokenizer.unk_token_id
    tokenizer.add_tokens(
        [one for one in string.punctuation if tokenizer.convert_tokens_to_ids(one) == unknown]
    )
    tokenizer.add_tokens(prefixes)
    if model_type == "qwen3":
        tokenizer.mask_token = None
    tokenizer.save_pretrained(folder)
    if model_type == "qwen3":
        file = folder / "tokenizer.json"
        file.write_text(file.read_text(encoding="utf-8").replace('"<mask>"', '"<other>"'), encoding="utf-8")
    return np.random.default_rng(7).standard_normal((31, 48)).astype(np.float32)


def pylate(folder: Path, model_type: str = "bert", dense: dict = DENSE, **settings) -> Path:
    """The files that PyLate writes."""
    weight = encoder(folder, model_type, ["[Q] ", "[D] "])
    write(folder / "modules.json", MODULES)
    write(folder / "config_sentence_transformers.json", {"model_type": "ColBERT"} | SETTINGS | settings)
    write(folder / "sentence_bert_config.json", {"max_seq_length": 39, "do_lower_case": False})
    write(folder / "1_Dense/config.json", dense)
    save_file({"linear.weight": weight}, folder / "1_Dense/model.safetensors")
    return folder


def colbert(folder: Path, **metadata) -> Path:
    """The files that ColBERT's authors publish."""
    weight = encoder(folder, "bert", ["[unused0]", "[unused1]"])
    file = folder / "model.safetensors"
    tensors = {f"bert.{name}": value for name, value in load_file(file).items()}
    save_file(tensors | {"linear.weight": weight}, file, metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    write(folder / "config.json", config | {"architectures": ["HF_ColBERT"]})
    write(folder / "artifact.metadata", {"query_maxlen": 28, "doc_maxlen": 30, "dim": 31} | metadata)
    return folder


def expected(folder: Path, settings: dict, is_query: bool) -> list[np.ndarray]:
    """By transformers, text for text: the layer of each hidden state of a token that counts, of length 1."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    file = folder / "1_Dense/model.safetensors"
    layer = load_file(file if file.is_file() else folder / "model.safetensors")["linear.weight"]
    side = "query" if is_query else "document"
    prefix, length = settings[f"{side}_prefix"], settings[f"{side}_length"]
    ids = {"pad": tokenizer.eos_token_id if tokenizer.mask_token is None else tokenizer.mask_token_id}
    skipped = {tokenizer.convert_tokens_to_ids(word) for word in settings["skiplist_words"]}
    result = []
    for text in TEXTS:
        row = tokenizer(text, truncation=True, max_length=length - (prefix != "")).input_ids
        if prefix:
            row.insert(1, tokenizer.convert_tokens_to_ids(prefix))
        expansions = length - len(row) if is_query and settings["do_query_expansion"] else 0
        mask = [1] * len(row) + [int(settings["attend_to_expansion_tokens"])] * expansions
        row = row + [ids["pad"]] * expansions
        with torch.no_grad():
            hidden = model(torch.tensor([row]), attention_mask=torch.tensor([mask])).last_hidden_state[0]
        vectors = torch.nn.functional.normalize(hidden @ torch.from_numpy(layer).T, dim=1).numpy()
        counts = [is_query or one not in skipped for one in row]
        result.append(vectors[counts])
    return result


def exported(folder: Path, out: Path) -> txexport.Model:
    assert txexport.export(folder, out).task == "feature-extraction"
    return txexport.load(out, device="cpu")


def equal(ours: list, theirs: list) -> bool:
    """Every text's own number of vectors, and each of their numbers."""
    return [len(one) for one in ours] == [len(one) for one in theirs] and all(
        one.shape[1] == 31 and np.abs(one - other).max() < 2e-6
        for one, other in zip(ours, theirs, strict=True)
    )


OTHER: list[dict] = [
    {"attend_to_expansion_tokens": True},
    {"do_query_expansion": False},
    {"query_prefix": "", "document_prefix": "[Q] "},
    {"query_length": 11, "document_length": 8},
    {"skiplist_words": ["the", "sat"]},
    {"skiplist_words": []},
]


@pytest.mark.parametrize("model_type", FAMILIES)
def test_vectors_of_tokens(model_type, tmp_path):
    folder = pylate(tmp_path / "in", model_type)
    model = exported(folder, tmp_path / "out")
    for is_query in (True, False):
        ours = model.embed_tokens(TEXTS, is_query=is_query, batch_tokens=50)
        assert equal(ours, expected(folder, SETTINGS, is_query))
        assert equal([model.embed_tokens(TEXTS[2], is_query=is_query)], ours[2:3])
        assert all(np.abs(np.linalg.norm(one, axis=1) - 1).max() < 1e-6 for one in ours)
    assert all(len(one) == 28 for one in model.embed_tokens(TEXTS, is_query=True))
    assert model.embed_tokens([]) == []


@pytest.mark.parametrize("changed", OTHER, ids=str)
def test_every_setting_counts(changed, tmp_path):
    folder = pylate(tmp_path / "in", **changed)
    model = exported(folder, tmp_path / "out")
    plain = pylate(tmp_path / "plain")
    ours, theirs, others = [], [], []
    for is_query in (True, False):
        ours += model.embed_tokens(TEXTS, is_query=is_query, truncate=True)
        theirs += expected(folder, SETTINGS | changed, is_query)
        others += expected(plain, SETTINGS, is_query)
    assert equal(ours, theirs)
    assert not equal(ours, others)


@pytest.mark.parametrize("make", [pylate, colbert])
def test_vectors_are_those_of_sentence_transformers(make, tmp_path):
    folder = make(tmp_path / "in")
    model, original = exported(folder, tmp_path / "out"), MultiVectorEncoder(str(folder), device="cpu")
    queries, documents = model.embed_tokens(TEXTS, is_query=True), model.embed_tokens(TEXTS)
    assert equal(queries, original.encode_query(TEXTS, convert_to_numpy=True))
    assert equal(documents, original.encode_document(TEXTS, convert_to_numpy=True))
    theirs = original.similarity(original.encode_query(TEXTS), original.encode_document(TEXTS)).numpy()
    for scores, ranked in zip(theirs, model.rerank(TEXTS, TEXTS, return_documents=True), strict=True):
        order = [one["corpus_id"] for one in ranked]
        assert sorted(order) == [0, 1, 2, 3]
        assert [one["text"] for one in ranked] == [TEXTS[i] for i in order]
        assert [one["score"] for one in ranked] == pytest.approx(scores[order], abs=2e-5)
        assert all(one["score"] >= other["score"] for one, other in pairwise(ranked))
    assert model.rerank("far", TEXTS, top_k=1)[0]["corpus_id"] == int(theirs[1].argmax())
    assert model.rerank([], TEXTS) == model.rerank("far", []) == []


@pytest.mark.parametrize(
    ("metadata", "settings"),
    [
        ({}, {}),
        ({"mask_punctuation": False}, {"skiplist_words": []}),
        ({"attend_to_mask_tokens": True}, {"attend_to_expansion_tokens": True}),
        ({"query_maxlen": 16, "doc_maxlen": 17}, {"query_length": 16, "document_length": 17}),
        ({"query_token_id": "[unused1]"}, {"query_prefix": "[unused1]"}),
    ],
    ids=str,
)
def test_colbert_as_its_authors_publish_it(metadata, settings, tmp_path):
    folder = colbert(tmp_path / "in", **metadata)
    model = exported(folder, tmp_path / "out")
    wanted = SETTINGS | {"query_prefix": "[unused0]", "document_prefix": "[unused1]"} | settings
    for is_query in (True, False):
        ours = model.embed_tokens(TEXTS, is_query=is_query, truncate=True)
        assert equal(ours, expected(folder, wanted, is_query))
    assert txexport.verify(tmp_path / "out", cases="quick").ok


@pytest.mark.parametrize(
    ("metadata", "kind", "said"),
    [
        ({"similarity": "l2"}, UnsupportedError, "similarity is 'l2'; expected 'cosine'"),
        ({"interaction": "flipr"}, UnsupportedError, "interaction is 'flipr'; expected 'colbert'"),
        ({"query_maxlen": "x"}, CheckpointError, "query_maxlen is 'x', expected int"),
        ({"mask_punctuation": 1}, CheckpointError, "mask_punctuation is 1, expected bool"),
    ],
    ids=str,
)
def test_metadata_of_another_meaning_is_refused(metadata, kind, said, tmp_path):
    with pytest.raises(kind, match=said):
        txexport.export(colbert(tmp_path / "in", **metadata), tmp_path / "out")


@pytest.mark.parametrize("lacking", ["artifact.metadata", "linear.weight"])
def test_colbert_without_its_parts_is_refused(lacking, tmp_path):
    folder = colbert(tmp_path / "in")
    if lacking == "linear.weight":
        tensors = load_file(folder / "model.safetensors")
        del tensors[lacking]
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        (folder / lacking).unlink()
    with pytest.raises(CheckpointError, match=rf"has no (tensor ')?{lacking}'?, which HF_ColBERT needs"):
        txexport.export(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"query_prefix": 5}, "query_prefix is 5, expected str"),
        ({"do_query_expansion": "no"}, "do_query_expansion is 'no', expected bool"),
        ({"query_length": 3}, "query_length is 3, expected 4 to 1,048,576 tokens"),
        ({"document_length": True}, "document_length is True, expected 4 to"),
        ({"skiplist_words": "the"}, "skiplist_words is 'the', expected a list"),
        ({"document_prefix": "<D>"}, "the tokenizer has no token '<D>'"),
    ],
    ids=str,
)
def test_settings_that_are_none_are_named(changed, said, tmp_path):
    model = exported(pylate(tmp_path / "in", **changed), tmp_path / "out")
    with pytest.raises(BundleError, match=said):
        model.embed_tokens(TEXTS)


@pytest.mark.parametrize(
    ("dense", "said"),
    [
        (DENSE | {"use_residual": True}, "use_residual=True is not supported"),
        (DENSE | {"activation_function": "torch.nn.modules.activation.ReLU"}, "ReLU' is not supported"),
    ],
    ids=str,
)
def test_layers_that_do_more_are_refused(dense, said, tmp_path):
    model = exported(pylate(tmp_path / "in", dense=dense), tmp_path / "out")
    with pytest.raises(BundleError, match=said):
        model.embed_tokens("far")


def test_a_module_behind_the_layer_is_refused(tmp_path):
    folder = pylate(tmp_path / "in")
    write(folder / "modules.json", [*MODULES, {"path": "", "type": "mine.Sharpen"}])
    with pytest.raises(
        BundleError, match="names Transformer, Dense, Sharpen; expected Transformer, then Dense"
    ):
        exported(folder, tmp_path / "out").embed_tokens("far")


def test_texts_that_are_too_long_are_an_error_or_cut(tmp_path):
    model = exported(pylate(tmp_path / "in", query_length=6), tmp_path / "out")
    with pytest.raises(InputError, match=r"a text of 8 tokens is longer than 5; .*truncate=True"):
        model.rerank(TEXTS[0], TEXTS)
    assert len(model.embed_tokens(TEXTS[0], is_query=True, truncate=True)) == 6
    assert len(model.rerank(TEXTS[0], TEXTS, truncate=True)) == 4


def test_what_a_bundle_is_not_for_is_named(tmp_path, bundle_of):
    model = exported(pylate(tmp_path / "in"), tmp_path / "out")
    assert model.pooling is None
    for call in (lambda: model.embed("far"), lambda: model.embed("far", pooling="mean")):
        with pytest.raises(
            InputError, match=r"for late interaction \(use embed_tokens or rerank\); embed needs another"
        ):
            call()
    other = txexport.load(bundle_of("bert"), device="cpu")
    with pytest.raises(InputError, match=r"\(use embed\); embed_tokens needs a checkpoint for late"):
        other.embed_tokens("far")
    with pytest.raises(InputError, match=r"\(use embed\); rerank needs an export with --task text-class"):
        other.rerank("far", ["the"])


def test_the_command_and_a_server_rank_by_it(tmp_path):
    model = exported(pylate(tmp_path / "in"), tmp_path / "out")
    given = ["rerank", str(tmp_path / "out"), "the cat", "--json"]
    for text in TEXTS:
        given += ["--document", text]
    result = CliRunner().invoke(main, given)
    assert (result.exit_code, result.stderr) == (0, "")
    expected = model.rerank("the cat", TEXTS, return_documents=True)
    assert json.loads(result.stdout) == {"query": "the cat", "documents": expected}
    with running({"late": tmp_path / "out"}) as (address, _):
        asked = {"model": "late", "query": "the cat", "documents": TEXTS}
        results = httpx.post(f"{address}/v1/rerank", json=asked).json()["results"]
        assert [one["index"] for one in results] == [one["corpus_id"] for one in expected]
        refused = httpx.post(f"{address}/v1/embeddings", json={"model": "late", "input": "far"})
        assert refused.status_code == 400
        assert "late does not embed; it is for embed_tokens, rerank" in refused.text


def test_a_document_without_vectors_is_an_error(tmp_path):
    everything = ["[CLS]", "[D] ", "[SEP]", "far"]
    model = exported(pylate(tmp_path / "in", skiplist_words=everything), tmp_path / "out")
    assert model.embed_tokens("far").shape == (0, 31)
    with pytest.raises(InputError, match="a document has only tokens that are skipped"):
        model.rerank("the cat", ["far"])


def test_a_layer_of_another_width_is_an_error(tmp_path):
    folder = pylate(tmp_path / "in")
    save_file({"linear.weight": np.ones((31, 47), np.float32)}, folder / "1_Dense/model.safetensors")
    model = exported(folder, tmp_path / "out")
    with pytest.raises(BundleError, match="a dense layer takes vectors of 47 numbers, and gets 48"):
        model.embed_tokens("far")


def test_a_layer_of_other_numbers_is_no_export(tmp_path):
    """It lies among the checkpoint's own weights, of which verify makes its file again."""
    out = tmp_path / "out"
    exported(colbert(tmp_path / "in"), out).close()
    file = out / "1_Dense/dense.npz"
    np.savez(file, weight=np.load(file)["weight"] + np.float32(1))
    [case] = txexport.verify(relist(out), reference="twin", cases=["manifest and copied files"]).failed
    assert case.exception.endswith("1_Dense/dense.npz is not the file that export makes of the checkpoint")
