"""Gemma 3n's config.json: how sparse gates are, older names of RoPE, and the text model within."""

import json
from statistics import NormalDist

import numpy as np
import pytest
import safetensors.numpy
import tiny_checkpoint

from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import TxexportError
from txexport.families import resolve
from txexport.families._elementary import normal_quantile


@pytest.fixture
def folder(tmp_path):
    tiny_checkpoint.save(tmp_path, "gemma3n_text")
    return tmp_path


def changed(folder, **values):
    """The checkpoint's decoder with other values in config.json."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))
    return resolve(Checkpoint(folder)).spec.decoder


@pytest.mark.parametrize("share", [1e-3, 0.05, 0.3, 0.5, 0.95, 0.9999])
def test_quantiles_are_those_of_the_normal_distribution(share):
    assert normal_quantile(share) == pytest.approx(NormalDist().inv_cdf(share), abs=1e-11)


def test_gates_are_cut_off_by_the_share_that_is_zero(folder):
    """The share as float32, of which the original takes the quantile."""
    cutoffs = [block.feed_forward.cutoff for block in changed(folder).layers]
    shares = [0.7, 0.4, 0.0, 0.6, 0.0]
    expected = [NormalDist().inv_cdf(float(np.float32(share))) if share else None for share in shares]
    assert cutoffs == [pytest.approx(one, abs=1e-12) if one else None for one in expected]
    dense = changed(folder, activation_sparsity_pattern=None)
    assert {block.feed_forward.cutoff for block in dense.blocks} == {None}


def test_the_first_ten_of_more_layers_are_sparse(tmp_path):
    pattern = {"layer_types": None, "activation_sparsity_pattern": None, "intermediate_size": 60}
    tiny_checkpoint.save(tmp_path, "gemma3n_text", num_hidden_layers=12, **pattern)
    layers = changed(tmp_path, activation_sparsity_pattern=None).layers
    assert [layer.feed_forward.cutoff is not None for layer in layers] == [True] * 10 + [False] * 2


@pytest.mark.parametrize("pattern", [[0.5] * 4, [0.0, 0.0, 0.0, 0.0, 1.0]])
def test_other_shares_are_refused(folder, pattern):
    with pytest.raises(TxexportError, match=r"activation_sparsity_pattern is .*, expected 5 numbers below 1"):
        changed(folder, activation_sparsity_pattern=pattern)


def test_older_names_of_rope(folder):
    """As published: one theta for full layers, another for those with a window."""
    tables = {
        "full_attention": {"rope_type": "default", "rope_theta": 7e4},
        "sliding_attention": {"rope_type": "default", "rope_theta": 3e2},
    }
    newer = changed(folder, rope_parameters=tables)
    older = {"rope_theta": 7e4, "rope_local_base_freq": 3e2, "rope_scaling": None, "rope_parameters": None}
    assert changed(folder, **older) == newer
    assert newer.blocks[0].attention.rotary != newer.blocks[1].attention.rotary


def test_keys_that_the_original_does_not_read_are_left_out(folder):
    """Published files have projections of keys in layers that read another's."""
    file = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    other = {
        name.replace("layers.2.", "layers.4."): one for name, one in tensors.items() if "layers.2." in name
    }
    keys = {name: one for name, one in other.items() if name.split(".")[-2] in ("k_proj", "v_proj", "k_norm")}
    assert len(keys) == 3
    safetensors.numpy.save_file(tensors | keys, file, {"format": "pt"})
    assert changed(folder).layers[4].shared_layer == 2


@pytest.mark.parametrize("stored", [True, False])
def test_the_text_model_within_ties_its_head_unless_one_is_stored(stored, tmp_path):
    tiny_checkpoint.save(tmp_path, "gemma3n", text_config={"tie_word_embeddings": not stored})
    resolved = resolve(Checkpoint(tmp_path))
    assert resolved.spec.head.tied == (not stored)
    assert resolved.spelt_out["model_type"] == "gemma3n_text"
    assert resolved.note == "the text model is exported, and held against Gemma3nForCausalLM of transformers"
