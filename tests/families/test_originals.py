"""Originals that read their files in a special way: a bundle has their numbers, or is refused."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from helpers.row import CLASSIFY, LABELS, Row
from sentence_transformers import CrossEncoder

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import BundleError, InputError, TxexportError, UnsupportedError
from txexport.runtime.preprocessing.token_types import gives_types
from txexport.verification import verify


def edited(folder: Path, name: str, **values) -> None:
    file = folder / name
    found = json.loads(file.read_text()) if file.is_file() else {}
    file.write_text(json.dumps(found | values))


@pytest.fixture
def copy_of(checkpoint_of, tmp_path):
    """A function from a model_type to a checkpoint of its own, with config changes."""

    def get(model_type: str, **config) -> Path:
        folder = shutil.copytree(checkpoint_of(model_type), tmp_path / "checkpoint")
        edited(folder, "config.json", **config)
        return folder

    return get


@pytest.mark.parametrize(
    ("model_type", "config"),
    [
        ("t5", {"dense_act_fn": "gelu_new"}),
        ("t5", {"dense_act_fn": "silu", "feed_forward_proj": "relu", "is_gated_act": False}),
        ("mt5", {"dense_act_fn": "gelu"}),
        ("mt5", {"dense_act_fn": "relu", "is_gated_act": True}),
        ("gpt2", {"num_attention_heads": 6}),
        ("bart", {"num_attention_heads": 6}),
        ("bloom", {"num_attention_heads": 6}),
        ("distilbert", {"num_attention_heads": 6}),
        ("umt5", {"tie_word_embeddings": False}),
        ("modernbert-decoder", {"sliding_window": 3, "local_attention": 12}),
    ],
    ids=str,
)
def test_of_values_that_contradict_each_other_the_originals_wins(model_type, config, copy_of, tmp_path):
    folder = copy_of(model_type, **config)
    txexport.export(folder, tmp_path / "out", only="native")
    assert verify(tmp_path / "out", reference="transformers").ok


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"dense_act_fn": "mish"}, "dense_act_fn 'mish' is not supported"),
        ({"dense_act_fn": None}, "'dense_act_fn' is missing"),
        ({"feed_forward_proj": None}, "'feed_forward_proj' is missing"),
        ({"feed_forward_proj": "silu-gelu"}, "feed_forward_proj 'silu-gelu' is not supported"),
        ({"is_gated_act": 1}, "'is_gated_act' is 1, expected bool"),
        ({"is_gated_act": True}, "wi_0.weight"),
    ],
    ids=str,
)
def test_t5_without_a_meaning_is_refused(config, said, copy_of, tmp_path):
    with pytest.raises(TxexportError, match=said):
        txexport.export(copy_of("t5", **config), tmp_path / "out")


@pytest.mark.parametrize("model_type", families.names())
def test_other_names_of_values_are_those_of_transformers(model_type):
    """If config.json has both, the alias wins: a reader of one alone exports another model."""
    theirs = transformers.CONFIG_MAPPING[model_type].attribute_map
    assert getattr(families.module(model_type), "ALIASES", {}) == theirs


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
def test_m2m_that_starts_with_padding_is_refused(file, copy_of, tmp_path):
    folder = copy_of("m2m_100")
    edited(folder, file, decoder_start_token_id=1)
    with pytest.raises(TxexportError, match=rf"{file}: decoder_start_token_id 1 is the padding"):
        txexport.export(folder, tmp_path / "out")


def test_m2m_is_not_started_with_padding(bundle_of):
    model = txexport.load(bundle_of("m2m_100"), device="cpu")
    with pytest.raises(InputError, match="decoder_start_token_id is 1, the padding"):
        model.generate_ids([[5, 6, 7]], decoder_start_token_id=1)


def test_big_bird_reads_as_many_tokens_as_its_original_reads_in_full(copy_of):
    """By a fresh original: one that has read a short text stays with full attention for longer ones."""
    folder = copy_of("big_bird", attention_type="block_sparse", block_size=2, num_random_blocks=1)
    limit = families.resolve(Checkpoint(folder)).spec.encoder.limit

    def read(length: int, kind: str) -> torch.Tensor:
        model = transformers.BigBirdModel.from_pretrained(folder).eval()
        model.set_attention_type(kind)
        with torch.no_grad():
            return model(torch.arange(5, 5 + length)[None]).last_hidden_state

    assert torch.equal(read(limit, "block_sparse"), read(limit, "original_full"))
    apart = read(limit + 1, "block_sparse") - read(limit + 1, "original_full")
    assert apart.abs().max() > 1e-2


PAIR = ("the cat sat", "on the mat")


def logits_of(folder: Path, auto: str) -> np.ndarray:
    """The logits of PAIR by transformers' tokenizer and model, as its pipelines combine them."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = getattr(transformers, auto).from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**tokenizer(*PAIR, return_tensors="pt"))[0].numpy()


TOLD = ["input_ids", "token_type_ids", "attention_mask"]
TOKENIZERS = [
    ("albert", {}, False),
    ("albert", {"tokenizer_class": "BertTokenizer"}, True),
    ("bert", {}, True),
    ("bert", {"model_input_names": ["input_ids", "attention_mask"]}, False),
    ("bert", {"tokenizer_class": "BertTokenizerFast"}, True),
    ("bert", {"tokenizer_class": "PreTrainedTokenizerFast"}, False),
    ("bert", {"tokenizer_class": "DistilBertTokenizer"}, False),
    ("electra", {}, True),
    ("electra", {"tokenizer_class": "ElectraTokenizerFast"}, True),
    ("roberta", {}, False),
]


@pytest.mark.parametrize(("model_type", "settings", "told"), TOKENIZERS, ids=str)
def test_token_types_are_given_where_transformers_gives_them(model_type, settings, told, tmp_path):
    tiny_tokenizers.wordpiece().save_pretrained(tmp_path)
    tiny_tokenizers.wordpiece().backend_tokenizer.model.save(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model_type, "vocab_size": 311}))
    assert gives_types(settings, {"model_type": model_type}) is told
    try:
        theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    except Exception:  # albert's and roberta's own cannot be of these words
        assert model_type in ("albert", "roberta")
        name = transformers.models.auto.tokenization_auto.TOKENIZER_MAPPING_NAMES[model_type]
        theirs = getattr(transformers, name)
    assert ("token_type_ids" in theirs.model_input_names) is told


PAIRED = [
    ("bert", "BertForSequenceClassification", "AutoModelForSequenceClassification"),
    ("albert", "AlbertForSequenceClassification", "AutoModelForSequenceClassification"),
    ("bert", "BertForNextSentencePrediction", "AutoModelForNextSentencePrediction"),
]


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(("model_type", "architecture", "auto"), PAIRED, ids=lambda value: value)
def test_pairs_give_the_numbers_of_the_original(model_type, architecture, auto, told, tmp_path):
    """AlbertForSequenceClassification without token types was 0.02 off and more before."""
    folder = tmp_path / "in"
    tiny_checkpoint.save(folder, model_type, architecture)
    tiny_tokenizers.wordpiece().save_pretrained(folder)
    names = TOLD if told else ["input_ids", "attention_mask"]
    edited(folder, "tokenizer_config.json", model_input_names=names)
    txexport.export(folder, tmp_path / "out")
    model = txexport.load(tmp_path / "out", device="cpu")
    theirs = torch.softmax(torch.from_numpy(logits_of(folder, auto)), -1)[0].numpy()
    if "Next" in architecture:
        assert model.next_sentence(*PAIR) == pytest.approx(theirs[0], abs=2e-6)
    else:
        ours = {label["label"]: label["score"] for label in model.classify([PAIR])[0]}
        assert [ours["LABEL_0"], ours["LABEL_1"]] == pytest.approx(theirs, abs=2e-6)


NAMES = "torch.nn.modules."
IDENTITY, TANH = NAMES + "linear.Identity", NAMES + "activation.Tanh"
CROSS = [
    (1, {"sbert_ce_default_activation_function": IDENTITY}),
    (1, {"sentence_transformers": {"activation_fn": IDENTITY}}),
    (1, {"sentence_transformers": {"activation_fn": NAMES + "activation.Sigmoid"}}),
    (1, {"sentence_transformers": {"activation_fn": TANH}, "sbert_ce_default_activation_function": IDENTITY}),
    (1, {"sentence_transformers": {"version": "4"}, "sbert_ce_default_activation_function": IDENTITY}),
    (1, {"sentence_transformers": {"activation_fn": "torch.nn.Identity"}, "problem_type": "regression"}),
    (1, {"sentence_transformers": {"version": "4"}}),
    (3, {"sbert_ce_default_activation_function": IDENTITY}),
    (3, {"sentence_transformers": {"activation_fn": NAMES + "activation.Softmax"}}),
]
PAIRS = [PAIR, ("the dog", "lives in paris"), ("far", "Anna works")]


def crossed(folder: Path, labels: int) -> Path:
    tiny_checkpoint.save(folder, "bert", "BertForSequenceClassification", num_labels=labels)
    tiny_tokenizers.wordpiece().save_pretrained(folder)
    return folder


def equal_scores(folder: Path, out: Path, labels: int) -> None:
    txexport.export(folder, out)
    rows = txexport.load(out, device="cpu").classify(PAIRS)
    named = [{label["label"]: label["score"] for label in row} for row in rows]
    ours = np.array([[row[f"LABEL_{i}"] for i in range(labels)] for row in named])
    theirs = CrossEncoder(str(folder), device="cpu", local_files_only=True).predict(PAIRS)
    assert np.abs(ours - theirs.reshape(ours.shape)).max() < 2e-6
    if labels == 1:
        equal_ranks(folder, txexport.load(out, device="cpu"))


def equal_ranks(folder: Path, model: txexport.Model) -> None:
    documents = [second for _, second in PAIRS]
    for query in (PAIRS[0][0], "far"):
        theirs = CrossEncoder(str(folder), device="cpu", local_files_only=True).rank(
            query, documents, return_documents=True
        )
        ours = model.rerank(query, documents, return_documents=True)
        assert [(one["corpus_id"], one["text"]) for one in ours] == [
            (one["corpus_id"], one["text"]) for one in theirs
        ]
        assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=2e-6)
    both = model.rerank([query, PAIRS[0][0]], documents, top_k=2)
    assert both[0] == [{"corpus_id": one["corpus_id"], "score": one["score"]} for one in ours[:2]]
    assert model.rerank([], documents) == model.rerank(query, []) == []


@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize(("labels", "config"), CROSS, ids=str)
def test_cross_encoders_score_as_they_ask(labels, config, tmp_path):
    folder = crossed(tmp_path / "in", labels)
    edited(folder, "config.json", **config)
    equal_scores(folder, tmp_path / "out", labels)


def test_a_model_of_several_labels_ranks_nothing(tmp_path):
    txexport.export(crossed(tmp_path / "in", 3), tmp_path / "out")
    model = txexport.load(tmp_path / "out", device="cpu")
    with pytest.raises(
        InputError, match=r"has 3 labels \(LABEL_0, LABEL_1, LABEL_2\), and ranking needs a model with one"
    ):
        model.rerank("far", ["the cat"])


def test_cross_encoder_as_sentence_transformers_saves_it(tmp_path):
    """With modules.json, which sentence encoders have too, and the activation in a separate file."""
    plain = crossed(tmp_path / "plain", 1)
    CrossEncoder(str(plain), device="cpu", activation_fn=torch.nn.Identity()).save(str(tmp_path / "in"))
    assert (tmp_path / "in/modules.json").is_file()
    equal_scores(tmp_path / "in", tmp_path / "out", 1)


@pytest.mark.parametrize("name", [NAMES + "activation.ReLU", "mine.Identity", "torch.load", 5])
def test_other_activations_of_cross_encoders_are_named(name, tmp_path):
    folder = crossed(tmp_path / "in", 1)
    edited(folder, "config.json", sbert_ce_default_activation_function=name)
    txexport.export(folder, tmp_path / "out")
    with pytest.raises(BundleError, match=f"activation '{name}' of a cross-encoder is not supported"):
        txexport.load(tmp_path / "out", device="cpu").classify([PAIR])


@pytest.mark.parametrize(
    ("given", "filed"),
    [
        ({"max_new_tokens": 4, "max_length": 30}, {}),
        ({"max_new_tokens": 4}, {"max_length": 30}),
        ({"max_length": 30}, {"max_new_tokens": 4}),
        ({}, {"max_new_tokens": 4, "max_length": 30}),
    ],
    ids=str,
)
def test_max_length_beside_max_new_tokens_is_told(given, filed, copy_of, tmp_path, caplog):
    folder = copy_of("gpt2")
    edited(folder, "generation_config.json", eos_token_id=None, **filed)
    txexport.export(folder, tmp_path / "out")
    model = txexport.load(tmp_path / "out", device="cpu")
    with pytest.warns(UserWarning, match="max_new_tokens=4 overrides max_length=30, which is ignored"):
        ours = model.generate_ids([[5, 6, 7]], **given)[0]
    original = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    theirs = original.generate(torch.tensor([[5, 6, 7]]), do_sample=False, **given)[0, 3:].tolist()
    assert ours == theirs
    assert len(ours) == 4


def test_min_length_beside_min_new_tokens_is_told(bundle_of):
    model = txexport.load(bundle_of("gpt2"), device="cpu")
    with pytest.warns(UserWarning, match="min_new_tokens=2 overrides min_length=9, which is ignored"):
        model.generate_ids([[5, 6, 7]], max_new_tokens=4, min_new_tokens=2, min_length=9)


def test_a_label_of_the_last_token_does_not_depend_on_the_batch(checkpoint_of, tmp_path):
    """XLNet's original reads the last position, since its tokenizer pads on the left."""
    folder = checkpoint_of(Row("xlnet", "XLNetForSequenceClassification", CLASSIFY, "5 labels", LABELS))
    txexport.export(folder, tmp_path / "out", only="native")
    bundle = txexport.load(tmp_path / "out", device="cpu")
    original = transformers.XLNetForSequenceClassification.from_pretrained(folder)
    texts = ["the cat", "the dog lay on the rug and the cat on the mat", "rug"]
    rows = [bundle.text.encode([text])[0].ids for text in texts]
    longest = max(map(len, rows))
    ids = torch.tensor([[1] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    with torch.no_grad():
        expected = original(ids, attention_mask=mask).logits.softmax(dim=1)
    for labels, scores in zip(bundle.classify(texts), expected.tolist(), strict=True):
        found = {int(one["label"].removeprefix("LABEL_")): one["score"] for one in labels}
        assert [found[label] for label in range(5)] == pytest.approx(scores, abs=1e-6)


def test_answers_that_xlnet_searches_for_are_refused_by_name(copy_of, tmp_path):
    folder = copy_of("xlnet", architectures=["XLNetForQuestionAnswering"])
    with pytest.raises(UnsupportedError, match="it finds answers by beam search"):
        txexport.export(folder, tmp_path / "out")
