"""verify --reference transformers: what a config asks of PyTorch alone is no part of the model."""

import json
import shutil

import pytest
import tiny_checkpoint
import torch
import transformers

import txexport
from txexport.verification import verify

# How transformers is to compute and to answer, none of which a graph has.
MANNERS = [
    {"return_dict": False},
    {"chunk_size_feed_forward": 3},
    {"attn_implementation": "flash_attention_2"},
    {"_attn_implementation": "flash_attention_3", "_experts_implementation": "grouped_mm"},
    {"_attn_implementation_internal": "kernels-community/flash-attn"},
    {"output_hidden_states": True, "output_attentions": True, "use_cache": False},
    {"dtype": "bfloat16"},
]


@pytest.mark.parametrize("asked", MANNERS, ids=lambda asked: ", ".join(asked))
@pytest.mark.parametrize("model_type", ["bert", "t5"])
def test_manners_of_the_original_change_no_verdict(model_type, asked, checkpoint_of, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(checkpoint_of(model_type), source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | asked))
    txexport.export(source, tmp_path / "out", only="native")
    report = verify(tmp_path / "out", reference="transformers", cases="quick")
    assert report.ok


def test_a_class_that_no_automatic_one_finds_takes_what_integers_stand_for(checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("siglip_text_model"), tmp_path / "out", only="native", dtype="int8")
    report = verify(tmp_path / "out", reference="transformers", cases=["one row of odd length"])
    assert report.ok


def test_the_library_can_still_train_what_a_proof_ran(tmp_path):
    """BEiT's indices of a window are kept for every model, also for one that is trained later."""
    tiny_checkpoint.save(tmp_path / "in", "beit", "BeitForImageClassification", image_size=18)
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    assert verify(tmp_path / "out", reference="transformers", cases="quick").ok
    model = transformers.BeitForImageClassification.from_pretrained(tmp_path / "in").train()
    model(torch.zeros(1, 3, 18, 18)).logits.sum().backward()
    assert all(parameter.grad is not None for name, parameter in model.named_parameters() if "query" in name)
