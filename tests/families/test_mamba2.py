"""Mamba-2 layers as checkpoints describe them: names of settings, what is refused, and names for clients."""

import json
from dataclasses import replace
from math import inf
from pathlib import Path

import pytest
import safetensors.numpy
import tiny_checkpoint
import torch
import transformers

from txexport import export, families, load
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import SpecError, UnsupportedError
from txexport.families._config import Config
from txexport.spec import Mamba2Spec, NormKind, NormSpec

PUBLISHED = ["mamba", "attention", "mamba", "mamba"]  # transformers 5.24 writes other names of the kinds
GENERATE = "text-generation"
SPEC = Mamba2Spec(8, 4, 4, 5, 2, 4, NormSpec(16, 1e-5, NormKind.RMS))


def folder_of(family: str, path: Path, **settings) -> Path:
    """A tiny checkpoint whose config.json has these settings, as they are."""
    tiny_checkpoint.save(path, family)
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | settings), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> list[Path]:
    """One checkpoint, described as transformers 5.24 does it, and as older versions do."""
    folder = tmp_path_factory.mktemp("granite")
    older = {"layer_types": PUBLISHED, "time_step_limit": [0.0, inf]}
    return [
        folder_of("granitemoehybrid", folder / name, **settings)
        for name, settings in (("newer", {}), ("older", older))
    ]


@pytest.fixture(scope="module")
def bundles(checkpoints) -> list[Path]:
    """A bundle of each of the checkpoints."""
    folders = [checkpoint.with_name(f"{checkpoint.name}-out") for checkpoint in checkpoints]
    for checkpoint, folder in zip(checkpoints, folders, strict=True):
        export(checkpoint, folder)
    return folders


def test_both_spellings_of_config_json_are_one_model(checkpoints, bundles):
    newer, older = (families.resolve(Checkpoint(folder)).spec for folder in checkpoints)
    assert newer == older
    prompts = [[5, 6, 7, 8, 9], [11, 12]]
    options = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    original = transformers.AutoModelForCausalLM.from_pretrained(checkpoints[0]).eval()
    expected = [
        original.generate(torch.tensor([prompt]), **options)[0, len(prompt) :].tolist() for prompt in prompts
    ]
    assert len({*map(tuple, expected)}) == 2
    for folder in bundles:
        assert load(folder, device="cpu").generate_ids(prompts, **options) == expected


def test_clients_find_the_kinds_of_layers_that_they_know(bundles):
    """transformers.js takes a state for "mamba", keys and values for "attention", and nothing else."""
    for folder in bundles:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert config["layer_types"] == PUBLISHED


REFUSED = {
    "time_step_limit is": {"time_step_limit": [0.001, 0.1]},
    "hidden_act is not silu": {"hidden_act": "gelu"},
    "mamba_d_head=": {"mamba_d_head": 7},
    "layer_types": {"layer_types": ["mamba", "attention", "mamba", "window"]},
    "no layer has attention": {"layer_types": ["mamba"] * 4},
}


BESIDE_REFUSED = {
    "time_step_limit is": {"time_step_limit": [0.001, 0.1]},
    "hidden_act is not silu": {"hidden_act": "gelu"},
    "mamba_d_head=": {"mamba_d_head": 7},
    "projectors_bias=True is not supported; expected False": {"projectors_bias": True},
}
ALONE_REFUSED = {
    "time_step_limit is": {"time_step_limit": [0.001, 0.1]},
    "hidden_act is not silu": {"hidden_act": "gelu"},
    "mamba_d_head=": {"head_dim": 7},
}
CHANNELS_REFUSED = {
    "hidden_act is not silu": {"hidden_act": "gelu"},
    "rescale_prenorm_residual=True is not supported": {"rescale_prenorm_residual": True},
}
SELECTED_REFUSED = {
    "hidden_act is not silu": {"hidden_act": "gelu"},
    "no layer has attention": {"attn_layer_period": 9, "attn_layer_offset": 8},
}
SETTINGS = [
    *(("jamba", *one) for one in SELECTED_REFUSED.items()),
    *((family, *one) for family in ("mamba", "falcon_mamba") for one in CHANNELS_REFUSED.items()),
    *(("mamba2", *one) for one in ALONE_REFUSED.items()),
    *(("granitemoehybrid", *one) for one in REFUSED.items()),
    *(("falcon_h1", *one) for one in BESIDE_REFUSED.items()),
]


@pytest.mark.parametrize(("family", "message", "settings"), SETTINGS)
def test_settings_that_are_refused(family, message, settings, tmp_path):
    source = folder_of(family, tmp_path / "in", **settings)
    with pytest.raises(UnsupportedError, match=message):
        export(source, tmp_path / "out")


WRONG = {
    "kernel is 1": {"kernel": 1},
    "4 heads cannot share 3 groups": {"num_groups": 3},
    "norm is 16 wide, the heads 20": {"head_dim": 5},
    "state_size is 0": {"state_size": 0},
}


@pytest.mark.parametrize(("message", "values"), WRONG.items(), ids=WRONG)
def test_specs_that_contradict_themselves(message, values):
    with pytest.raises(SpecError, match=message):
        replace(SPEC, **values)


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_a_graph_without_keys_takes_no_lengths(cache, tmp_path):
    """A step reads tokens and states, and how many of its tokens are real."""
    tiny_checkpoint.save(tmp_path / "in", "mamba2")
    export(tmp_path / "in", tmp_path / "out", cache=cache, only="native")
    inputs = load(tmp_path / "out", device="cpu").bundle.decoder.inputs
    states = {f"past_{kind}.{layer}" for kind in ("conv", "ssm") for layer in range(3)}
    others = {"static": {"logits_indices", "new_lengths"}, "dynamic": {"attention_mask"}}[cache]
    assert set(inputs) == {"input_ids"} | others | states


def test_older_names_of_the_embedding(tmp_path):
    folder = folder_of("mamba2", tmp_path)
    file = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    before = families.resolve(Checkpoint(folder)).spec
    tensors["backbone.embedding.weight"] = tensors.pop("backbone.embeddings.weight")
    safetensors.numpy.save_file(tensors, file, {"format": "pt"})
    resolved = families.resolve(Checkpoint(folder))
    assert resolved.spec == before
    assert resolved.weights["decoder.embedding.word.weight"].tensors == ("backbone.embedding.weight",)


@pytest.mark.parametrize("family", ["mamba", "falcon_mamba"])
@pytest.mark.parametrize(
    ("settings", "sizes"),
    [({}, (96, 3)), ({"intermediate_size": 80}, (80, 3)), ({"expand": 3, "time_step_rank": 9}, (144, 9))],
    ids=str,
)
def test_widths_that_are_stated_or_computed(family, settings, sizes, tmp_path):
    """transformers computes the width from `expand`, unless config.json states it."""
    folder = folder_of(family, tmp_path)
    values = json.loads((folder / "config.json").read_text())
    for name in ("intermediate_size", "time_step_rank"):
        values.pop(name)
    stated = transformers.AutoConfig.for_model(**values | settings)
    spec = families.module(family).spec(Config(values | settings, folder / "config.json"), GENERATE, ())
    layer = spec.decoder.blocks[0].attention
    assert (layer.inner_size, layer.step_rank) == sizes
    assert (stated.intermediate_size, stated.time_step_rank) == sizes


def test_states_are_those_of_transformers():
    assert SPEC.states == {"conv": (16 + 2 * 2 * 5, 4), "ssm": (4, 4, 5)}
