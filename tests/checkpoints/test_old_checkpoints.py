"""Folders as libraries of 2019 to 2021 wrote them give the same model as today's, to the last bit.

Keys that nothing reads any more, no model_type, masks and positions among the tensors, norms' old names, a
file of torch.save in the format before PyTorch 1.6.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.row import Row
from safetensors.torch import load_file

import txexport
from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError

EVERY = {  # of transformers 2 and 3
    **{"output_attentions": False, "output_past": True, "output_hidden_states": False, "torchscript": False},
    **{"finetuning_task": None, "use_bfloat16": False, "pruned_heads": {}, "num_labels": 2, "_num_labels": 2},
    **{"eos_token_ids": 0, "num_beams": 1, "do_sample": False, "max_length": 20, "xla_device": None},
    **{"gradient_checkpointing": False, "initializer_range": 0.02, "directionality": "bidi"},
    **{"pooler_fc_size": 768, "pooler_num_fc_layers": 3, "pooler_type": "first_token_transform"},
    **{"id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "label2id": {"LABEL_0": 0, "LABEL_1": 1}},
}
OF_FAMILY = {
    "albert": {"net_structure_type": 0, "down_scale_factor": 1, "gap_size": 0, "num_memory_blocks": 0},
    "distilbert": {"sinusoidal_pos_embds": True, "tie_weights_": True},
    "gpt2": {"n_ctx": 64, "summary_type": "cls_index", "summary_proj_to_labels": True},
    "openai-gpt": {"n_special": 0, "predict_special_tokens": True},
}
GONE = ("architectures", "model_type", "transformers_version", "dtype")
ROWS = [
    Row("bert", "BertForPreTraining", "pretraining"),
    Row("albert", "AlbertForMaskedLM", "fill-mask"),
    Row("distilbert", "DistilBertForMaskedLM", "fill-mask"),
    Row("roberta", "RobertaForMaskedLM", "fill-mask"),
    Row("xlm-roberta", "XLMRobertaForSequenceClassification", "text-classification"),
    Row("camembert", "CamembertModel", "feature-extraction"),
    Row("electra", "ElectraModel", "feature-extraction"),
    Row("longformer", "LongformerForMaskedLM", "fill-mask"),
    Row("gpt2", "GPT2LMHeadModel", "text-generation"),
    Row("openai-gpt", "OpenAIGPTLMHeadModel", "text-generation"),
    Row("gpt_neo", "GPTNeoForCausalLM", "text-generation"),
    Row("bart", "BartForConditionalGeneration", "text2text-generation"),
]


def old_tensors(row: Row, tensors: dict[str, torch.Tensor], length: int) -> dict[str, torch.Tensor]:
    """A state dict with the buffers and the names of its time."""
    result = dict(tensors)
    for name in tensors:
        stem, _, leaf = name.rpartition(".")
        if name.endswith("embeddings.word_embeddings.weight"):
            result[f"{stem.rpartition('.')[0]}.position_ids"] = torch.arange(length)[None]
        if row.model_type in ("gpt2", "openai-gpt") and name.endswith("attn.c_attn.weight"):
            attention = stem.removesuffix(".c_attn")
            result[f"{attention}.bias"] = torch.ones(length, length).tril()[None, None]
        if row.model_type in ("gpt2", "gpt_neo") and name.endswith(("c_attn.weight", "q_proj.weight")):
            result[f"{stem.rpartition('.')[0]}.masked_bias"] = torch.tensor(-1e4)
        if row.model_type == "bert" and stem.endswith("LayerNorm"):
            result[f"{stem}.{ {'weight': 'gamma', 'bias': 'beta'}[leaf] }"] = result.pop(name)
    if row.model_type == "bart":
        result |= {f"model.{side}.version": torch.tensor([3.0]) for side in ("encoder", "decoder")}
    assert result.keys() != tensors.keys() or row.model_type == "distilbert"
    return result


def aged(source: Path, folder: Path, row: Row) -> Path:
    """A checkpoint in the form of that time."""
    shutil.copytree(source, folder)
    values = json.loads((folder / "config.json").read_text())
    config = EVERY | OF_FAMILY.get(row.model_type, {}) | values
    (folder / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k not in GONE}))
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    length = values.get("max_position_embeddings", values.get("n_positions", 64))
    old = old_tensors(row, tensors, length)
    torch.save(old, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    return folder


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.architecture)
def test_an_old_folder_is_the_same_model(row, checkpoint_of, tmp_path):
    """The graph follows from the spec, and its weights from these numbers."""
    new, old = Checkpoint(checkpoint_of(row)), Checkpoint(aged(checkpoint_of(row), tmp_path / "old", row))
    expected = families.resolve(new, task=row.task)
    resolved = families.resolve(old, task=row.task, model_type=row.model_type)
    assert (resolved.spec, resolved.task) == (expected.spec, expected.task)
    assert resolved.weights.keys() == expected.weights.keys()
    for name, weight in resolved.weights.items():
        ours, theirs = (
            np.concatenate([*one.rows(of)]) for one, of in ((weight, old), (expected.weights[name], new))
        )
        assert np.array_equal(ours, theirs), name


def test_one_of_them_is_proved(checkpoint_of, tmp_path):
    row = next(row for row in ROWS if row.model_type == "albert")
    folder = aged(checkpoint_of(row), tmp_path / "old", row)
    txexport.export(folder, tmp_path / "out", model_type="albert", task=row.task, only="native")
    assert txexport.verify(tmp_path / "out", cases="quick", reference="transformers").ok


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        (
            "bert.pooler.dense.weight",
            "--model-type, such as bert or bert-generation or big_bird or megatron-bert",
        ),
        ("distilbert.x.weight", "--model-type, such as distilbert"),
        ("model.x.weight", "--model-type, such as bert"),
    ],
)
def test_without_a_family_the_names_of_tensors_advise(name, advice, tmp_path):
    """The names of forty families begin with `model.`."""
    (tmp_path / "config.json").write_text("{}")
    torch.save({name: torch.ones(2)}, tmp_path / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=f"{advice}$"):
        families.resolve(Checkpoint(tmp_path))


def test_pruned_heads_are_refused_by_their_shapes(checkpoint_of, tmp_path):
    """The result of `prune_heads`: narrower matrices, while config.json counts all heads."""
    folder = aged(checkpoint_of("bert"), tmp_path / "old", Row("bert", "BertModel", "feature-extraction"))
    tensors = torch.load(folder / "pytorch_model.bin")
    name = "encoder.layer.0.attention.self.query.weight"
    torch.save(tensors | {name: tensors[name][:32].clone()}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match=r"query\.weight' is \(32, 48\), expected \(48, 48\)"):
        families.resolve(Checkpoint(folder), model_type="bert")
