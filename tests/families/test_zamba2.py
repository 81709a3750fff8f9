"""Zamba2's shared blocks: stored once or several times; caches of each use; settings of published files."""

import json
from pathlib import Path

import pytest
import safetensors.torch
import tiny_checkpoint
import torch
import transformers

from txexport import export, families, load
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import stored_names
from txexport.errors import CheckpointError, UnsupportedError
from txexport.verification import verify

SHARED = "model.layers.{}.shared_transformer."
USERS = {1: 0, 2: 1, 3: 0}  # layers of the tiny checkpoint, and their blocks


def settings(folder: Path, **values) -> Path:
    """The checkpoint with these settings in config.json, as they are."""
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | values), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(3)
    tiny_checkpoint.save(tmp_path / "in", "zamba2", use_shared_attention_adapter=True, num_key_value_heads=4)
    return tmp_path / "in"


def copied(folder: Path, change: float = 0.0) -> None:
    """Store the block of layer 1 for layer 3 too, each number greater by `change`."""
    file = folder / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    first = {name: one for name, one in tensors.items() if name.startswith(SHARED.format(1))}
    assert first
    assert not any(name.startswith(SHARED.format(3)) for name in tensors)
    tensors |= {name.replace("layers.1.", "layers.3."): one + change for name, one in first.items()}
    safetensors.torch.save_file(tensors, file, {"format": "pt"})


def stored(folder: Path) -> dict[str, str]:
    """The parameter that is stored, by parameter."""
    return stored_names(families.resolve(Checkpoint(folder)).weights)


@pytest.mark.parametrize("copies", [False, True])
def test_a_block_is_stored_once(copies, folder):
    """Layers 1 and 3 share one block; adapters, and all else of a layer, are its own."""
    if copies:
        copied(folder)
    names = stored(folder)
    prefixes = [f"decoder.layers.{layer}." for layer in USERS]
    first, second, third = (
        {name.removeprefix(prefix): one for name, one in names.items() if name.startswith(prefix)}
        for prefix in prefixes
    )
    adapters = {name for name in first if ".adapter_" in name}
    others = {name for name in first if name.startswith(("beside", "project"))}
    assert len(adapters) == 10
    for name in first.keys() - adapters - others:
        assert third[name] == first[name]
        assert second[name] != first[name]
    for name in adapters | others:
        assert third[name] not in (first[name], second[name])


def test_blocks_are_not_tied_where_embeddings_are_not(tmp_path):
    """transformers then has a block for each layer."""
    tiny_checkpoint.save(tmp_path, "zamba2", tie_word_embeddings=False)
    names = stored(tmp_path)
    blocks = {name: one for name, one in names.items() if ".attention.q." in name}
    assert len(blocks) == len(USERS)
    assert all(name == one for name, one in blocks.items())


def test_adapters_of_both_halves_share_their_first_projection(folder):
    names = stored(folder)
    gate = "decoder.layers.2.feed_forward.gate.adapter_down.weight"
    assert names[gate] == names[gate.replace("gate", "up")]


def test_copies_that_differ_are_refused(folder):
    copied(folder, change=0.5)
    with pytest.raises(CheckpointError, match=r"ties 'model.layers.3.shared_transformer.* numbers differ"):
        export(folder, folder.parent / "out")


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_each_use_has_a_cache_of_its_own(cache, folder):
    out = folder.parent / "out"
    export(folder, out, cache=cache, only="native")
    inputs = set(load(out, device="cpu").bundle.decoder.inputs)
    states = {f"past_{kind}.{layer}" for kind in ("conv", "ssm") for layer in range(6)}
    keys = {f"past_key_values.{layer}.{kind}" for kind in ("key", "value") for layer in USERS}
    assert states | keys == {name for name in inputs if name.startswith("past_")}


def test_names_of_published_files(folder):
    """Kinds of layers have older names there, and computed values are stated."""
    before = families.resolve(Checkpoint(folder)).spec
    kinds = ["mamba", "hybrid", "hybrid", "hybrid", "mamba", "mamba"]
    computed = {"attention_head_dim": 20, "attention_hidden_size": 80, "mamba_headdim": 20}
    settings(folder, layers_block_type=kinds, hybrid_layer_ids=[*USERS], **computed)
    assert families.resolve(Checkpoint(folder)).spec == before


def test_the_library_s_default_layers():
    kinds = transformers.Zamba2Config().layers_block_type
    assert kinds == families.module("zamba2").DEFAULT


def test_no_time_step_has_a_limit(folder):
    """transformers takes time_step_min for one, in prompts alone: held against it without one."""
    settings(folder, time_step_min=0.5)
    out = folder.parent / "out"
    with pytest.warns(UserWarning, match="time steps have no limit"):
        export(folder, out, only="native")
    assert verify(out, cases="quick").ok


REFUSED = {
    "use_long_context=True is not supported": {"use_long_context": True},
    "time_step_limit is": {"time_step_limit": [0.001, 0.1]},
    "no layer is 'hybrid'": {"layers_block_type": ["mamba"] * 6, "hybrid_layer_ids": []},
    "layers_block_type": {"layers_block_type": ["mamba", "attention", *["hybrid"] * 4]},
    "hybrid_layer_ids=": {"hybrid_layer_ids": [1, 2]},
    "mamba_d_head=": {"mamba_headdim": 7},
    "num_key_value_heads=2 is not supported; expected 4": {"num_key_value_heads": 2},
    "attention_head_dim=10 is not supported; expected 20": {"attention_head_dim": 10},
    "attention_hidden_size=40 is not supported": {"attention_hidden_size": 40},
    "'num_mem_blocks' is 0, expected 1 or more": {"num_mem_blocks": 0},
    "partial_rotary_factor=0.5 is not supported": {"partial_rotary_factor": 0.5},
}


@pytest.mark.parametrize(("message", "values"), REFUSED.items(), ids=REFUSED)
def test_settings_that_are_refused(message, values, folder):
    settings(folder, **values)
    with pytest.raises((UnsupportedError, CheckpointError), match=message):
        export(folder, folder.parent / "out")
