"""verify --reference transformers: what a config asks of PyTorch alone is no part of the model."""

import json
import shutil

import pytest

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
