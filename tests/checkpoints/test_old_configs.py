"""config.json as older libraries wrote it: the same result as transformers', or one clear line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, InputError
from txexport.verification import verify

TEXTS = ["the cat sat on the mat", "the dog"]
FIRST = (  # the keys of Google's config.json
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
    *("hidden_act", "max_position_embeddings", "type_vocab_size", "attention_probs_dropout_prob"),
)


def changed(source: Path, folder: Path, *without: str, **config: object) -> Path:
    """A copy of a checkpoint with other values in config.json."""
    shutil.copytree(source, folder)
    values = json.loads((folder / "config.json").read_text()) | config
    values = {key: value for key, value in values.items() if key not in without}
    (folder / "config.json").write_text(json.dumps(values))
    return folder


def without_tensors(folder: Path, start: str) -> Path:
    tensors = load_file(folder / "model.safetensors")
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(start)}
    assert len(kept) < len(tensors)
    save_file(kept, folder / "model.safetensors", {"format": "pt"})
    return folder


def task_of(folder: Path, **asked: str) -> str:
    return families.resolve(Checkpoint(folder), **asked).task


def test_a_config_that_names_no_family(checkpoint_of, tmp_path):
    """Of the first releases: the error names the family, with which the vocabulary is read."""
    values = json.loads((checkpoint_of("bert") / "config.json").read_text())
    folder = changed(checkpoint_of("bert"), tmp_path / "in", *(values.keys() - set(FIRST)))
    (folder / "tokenizer.json").unlink()
    words = sorted((vocab := tiny_tokenizers.wordpiece().get_vocab()), key=vocab.__getitem__)
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    with pytest.raises(
        CheckpointError, match="'model_type' is missing, and `architectures` does not determine it; set "
    ):
        txexport.export(folder, tmp_path / "out")
    assert txexport.inspect(folder, model_type="bert").task == "feature-extraction"
    original = transformers.BertModel.from_pretrained(folder).eval()
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        batch = tokenizer(TEXTS, return_tensors="pt", padding=True)
        expected = original(**batch).last_hidden_state[:, 0].numpy()
    for only in (None, "native"):
        txexport.export(folder, tmp_path / "out", model_type="bert", only=only, force=True)
        vectors = txexport.load(tmp_path / "out", device="cpu").embed(TEXTS, pooling="cls", normalize=False)
        assert np.abs(vectors - expected).max() < 1e-4
        assert json.loads((tmp_path / "out/config.json").read_text())["model_type"] == "bert"
        assert verify(tmp_path / "out", cases="quick").ok


def test_a_family_that_its_architecture_tells(checkpoint_of, tmp_path):
    folder = changed(checkpoint_of("gpt2"), tmp_path / "in", "model_type")
    resolved = families.resolve(Checkpoint(folder))
    assert (resolved.model_type, resolved.task) == ("gpt2", "text-generation")
    assert resolved.spec == families.resolve(Checkpoint(checkpoint_of("gpt2"))).spec
    txexport.export(folder, tmp_path / "out")
    assert verify(tmp_path / "out", reference="transformers", cases="quick").ok


def test_a_family_that_config_json_contradicts(checkpoint_of, bundle_of):
    with pytest.raises(InputError, match=r"model_type is 'roberta', but .*config\.json is of a bert; "):
        txexport.inspect(checkpoint_of("bert"), model_type="roberta")
    with pytest.raises(InputError, match="has its model-type; --model-type is for checkpoints"):
        txexport.inspect(bundle_of("bert"), model_type="bert")
    assert task_of(checkpoint_of("bert"), model_type="bert") == "feature-extraction"


DEFAULTS = {
    "bert": "feature-extraction",
    "distilbert": "feature-extraction",
    "gpt2": "text-generation",
    "t5": "text2text-generation",
    "vit": "image-feature-extraction",
}


@pytest.mark.parametrize("model_type", DEFAULTS)
def test_no_architecture_means_what_the_family_is_for(model_type, checkpoint_of, tmp_path):
    folder = changed(checkpoint_of(model_type), tmp_path / "in", "architectures")
    assert task_of(folder) == DEFAULTS[model_type]


def test_a_decoder_without_its_head_gives_vectors(checkpoint_of, tmp_path):
    """The file does not name a task, and there is no embedding to project with."""
    folder = changed(checkpoint_of("llama"), tmp_path / "in", "architectures", tie_word_embeddings=False)
    assert task_of(folder) == "text-generation"
    assert task_of(without_tensors(folder, "lm_head")) == "feature-extraction"


def test_heads_of_pretraining_are_those_that_are_there(tmp_path):
    folder = tmp_path / "in"
    tiny_checkpoint.save(folder, "bert", "BertForPreTraining")
    assert task_of(folder) == "pretraining"
    without_tensors(folder, "cls.seq_relationship")
    assert task_of(folder) == "fill-mask"
    assert task_of(changed(folder, tmp_path / "lm", architectures=["BertLMHeadModel"])) == "fill-mask"
    without_tensors(folder, "cls.")
    with pytest.raises(CheckpointError, match=r"missing: .*cls\.predictions"):
        task_of(folder)


def test_names_of_labels_that_are_too_few(tmp_path):
    """transformers counts by num_labels, and then drops the names; with two rows it raises."""
    folder = tmp_path / "in"
    tiny_checkpoint.save(folder, "bert", "BertForSequenceClassification", num_labels=3)
    names = {"0": "no", "1": "yes"}
    three = changed(folder, tmp_path / "three", num_labels=3, id2label=names)
    original = transformers.BertForSequenceClassification.from_pretrained(three).eval()
    txexport.export(three, tmp_path / "out")
    assert verify(tmp_path / "out", reference="transformers", cases="quick").ok
    answer = txexport.load(tmp_path / "out", device="cpu").classify(TEXTS[0])
    assert {one["label"] for one in answer} == set(original.config.id2label.values())
    two = changed(folder, tmp_path / "two", num_labels=2, id2label=names | {"2": "maybe"})
    with pytest.raises(RuntimeError, match="size"):
        transformers.BertForSequenceClassification.from_pretrained(two)
    with pytest.raises(CheckpointError, match=r"tensor 'classifier.weight' is \(3, 48\), expected \(2, 48\)"):
        task_of(two)


def test_sequences_of_a_decoder_without_padding_are_read_by_the_mask(tmp_path):
    """The original then reads single rows alone, and raises for a batch; a bundle returns each row's."""
    folder = tmp_path / "in"
    tiny_checkpoint.save(folder, "llama", "LlamaForSequenceClassification")
    folder = changed(folder, tmp_path / "changed", pad_token_id=None)
    original = transformers.LlamaForSequenceClassification.from_pretrained(folder).eval()
    with pytest.raises(ValueError, match="batch sizes > 1"):
        original(torch.ones(2, 3, dtype=torch.long))
    txexport.export(folder, tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu")
    rows = [[5, 1, 7, 9, 1], [4, 1]]
    ids, mask = np.array([rows[0], [*rows[1], 0, 0, 0]]), np.array([[1] * 5, [1, 1, 0, 0, 0]])
    found = model.run(input_ids=ids, attention_mask=mask)["logits"]
    for row, scores in zip(rows, found, strict=True):
        assert np.abs(original(torch.tensor([row])).logits[0].detach().numpy() - scores).max() < 1e-5
