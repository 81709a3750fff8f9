"""Nemotron-H as NVIDIA publishes it: a pattern of layers, and time steps without a limit."""

import json
from math import inf
from pathlib import Path

import pytest
import safetensors.numpy
import tiny_checkpoint
import torch
import transformers

from txexport import export, families, load
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError
from txexport.verification import verify

PATTERN = "MEM*-"
OLDER = {"n_groups": "mamba_n_groups", "conv_kernel": "mamba_d_conv", "use_conv_bias": "mamba_conv_bias"}


def described(folder: Path, *left_out: str, **settings) -> Path:
    """The checkpoint with these settings in config.json, as they are, and without those that are left out."""
    file = folder / "config.json"
    values = json.loads(file.read_text(encoding="utf-8")) | settings
    values = {name: value for name, value in values.items() if name not in left_out}
    file.write_text(json.dumps(values), encoding="utf-8")
    return folder


def test_published_files_are_the_same_model(tmp_path):
    """A pattern in place of a list, older names, and the layers that predict several tokens."""
    for name in ("newer", "older"):
        torch.manual_seed(3)
        tiny_checkpoint.save(tmp_path / name, "nemotron_h")
    values = json.loads((tmp_path / "older/config.json").read_text(encoding="utf-8"))
    older = {other: values[name] for name, other in OLDER.items()}
    older |= {"hybrid_override_pattern": PATTERN, "num_hidden_layers": 5, "time_step_limit": [0.0, inf]}
    described(tmp_path / "older", "layers_block_type", *OLDER, **older)
    weights = tmp_path / "older/model.safetensors"
    tensors = safetensors.numpy.load_file(weights)
    assert all(name.startswith(("backbone.", "lm_head.")) for name in tensors)
    tensors["mtp.layers.0.norm.weight"] = tensors["backbone.norm_f.weight"]
    safetensors.numpy.save_file(tensors, weights)
    newer, other = (families.resolve(Checkpoint(tmp_path / name)) for name in ("newer", "older"))
    assert newer.spec == other.spec
    assert newer.weights.keys() == other.weights.keys()


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_no_time_step_has_a_limit(cache, tmp_path):
    """transformers takes time_step_min for one, in prompts alone: held against it without one."""
    torch.manual_seed(3)
    tiny_checkpoint.save(tmp_path / "in", "nemotron_h", time_step_min=0.5)
    with pytest.warns(UserWarning, match="time steps have no limit"):
        export(tmp_path / "in", tmp_path / "out", cache=cache, only="native")
    assert verify(tmp_path / "out", cases="quick").ok
    prompt, model = [5, 6, 7, 8, 9], load(tmp_path / "out", device="cpu")
    logits = {}
    for least in (0.5, 1e-30):
        original = transformers.AutoModelForCausalLM.from_pretrained(
            tmp_path / "in", time_step_min=least
        ).eval()
        with torch.no_grad():
            logits[least] = original(torch.tensor([prompt])).logits[0, -1]
    assert (logits[0.5] - logits[1e-30]).abs().max() > 1e-3
    [[token]] = model.generate_ids([prompt], max_new_tokens=1, do_sample=False)
    assert token == int(logits[1e-30].argmax())


def test_hidden_states_are_refused(tmp_path):
    """transformers has one for every sublayer, and a block has two."""
    tiny_checkpoint.save(tmp_path / "in", "nemotron_h")
    with pytest.raises(
        UnsupportedError, match="outputs hidden_states: the original returns them behind every"
    ):
        export(tmp_path / "in", tmp_path / "out", outputs=["hidden_states"])


REFUSED = {
    "layer 0 is 'moe', expected it after one of": {"layers_block_type": ["moe", "full_attention"]},
    "layer 2 is 'mlp', expected it after one of": {
        "layers_block_type": ["full_attention", "mlp", "mlp", "linear_attention"]
    },
    "a layer is 'window', expected": {"layers_block_type": ["window"]},
    "no layer has attention": {"layers_block_type": ["linear_attention", "mlp"]},
    "time_step_limit is": {"time_step_limit": [0.001, 0.1]},
    "sliding_window=5 is not supported": {"sliding_window": 5},
    "'ssm_state_size' is {}": {"ssm_state_size": {}},
}


@pytest.mark.parametrize(("message", "settings"), REFUSED.items(), ids=REFUSED)
def test_settings_that_are_refused(message, settings, tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "nemotron_h")
    described(tmp_path / "in", **settings)
    with pytest.raises((UnsupportedError, CheckpointError), match=message):
        export(tmp_path / "in", tmp_path / "out")
