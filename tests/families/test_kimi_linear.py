"""Kimi Linear as its checkpoints are published, and what is refused."""

import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import tiny_checkpoint
import transformers

from txexport import export, families, load
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError, UnsupportedError

PROMPTS = [[5, 6, 7, 8, 9], [11, 12]]
# Values by the names of published files, which have lists of layers.
LISTS = {
    "linear_attn_config": {
        **{"full_attn_layers": [2], "kda_layers": [1, 3]},
        **{"head_dim": 10, "num_heads": 5, "short_conv_kernel_size": 3},
    },
    **{"first_k_dense_replace": 1, "moe_layer_freq": 1, "mla_use_nope": True, "head_dim": 72},
    **{"moe_router_activation_func": "sigmoid", "use_grouped_topk": True},
    **{"rope_theta": 10000.0, "rope_scaling": None, "num_nextn_predict_layers": 0},
}
NEWER = ("layer_types", "mlp_layer_types", "linear_head_dim", "linear_num_heads", "linear_conv_kernel_dim")


def described(folder: Path, *without: str, **settings) -> Path:
    """The checkpoint with other settings in config.json, and without some."""
    file = folder / "config.json"
    values = json.loads(file.read_text(encoding="utf-8")) | settings
    file.write_text(json.dumps({key: values[key] for key in values if key not in without}))
    return folder


def resolved(folder: Path) -> families.Resolved:
    return families.resolve(Checkpoint(folder), "text-generation")


def numbers(folder: Path) -> dict[str, np.ndarray]:
    """The parameters by name."""
    checkpoint = Checkpoint(folder)
    return {name: np.concatenate([*one.rows(checkpoint)]) for name, one in resolved(folder).weights.items()}


@pytest.fixture
def folder(tmp_path) -> Path:
    tiny_checkpoint.save(tmp_path / "in", "kimi_linear")
    return tmp_path / "in"


def test_published_files_are_the_same_model(folder, tmp_path):
    """Lists of layers that count from 1, a dense layer under another name, and the original's tokens."""
    before, weights = resolved(folder).spec, numbers(folder)
    file = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(file)
    dense = {name for name in tensors if name.startswith("model.layers.0.block_sparse_moe.")}
    renamed = {
        name.replace(".block_sparse_moe.", ".mlp.") if name in dense else name: tensor
        for name, tensor in tensors.items()
    }
    safetensors.numpy.save_file(renamed, file, {"format": "pt"})
    described(folder, *NEWER, **LISTS)
    assert resolved(folder).spec == before
    for name, array in numbers(folder).items():
        np.testing.assert_array_equal(array, weights[name])
    export(folder, tmp_path / "out", only="native")
    original = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    settings = {"max_new_tokens": 6, "do_sample": False, "eos_token_id": None}
    tokens = load(tmp_path / "out", device="cpu").generate_ids(PROMPTS, **settings)
    for prompt, ours in zip(PROMPTS, tokens, strict=True):
        ids = transformers.BatchEncoding({"input_ids": [prompt]}, tensor_type="pt")["input_ids"]
        assert ours == original.generate(ids, **settings).tolist()[0][len(prompt) :]


def test_every_fourth_layer_attends_where_no_value_tells(folder):
    described(folder, "layer_types")
    spec = families.module("kimi_linear").spec
    config = families.Config(
        json.loads((folder / "config.json").read_text()) | {"num_hidden_layers": 9}, folder
    )
    config = config.replaced(mlp_layer_types=None)
    names = families.TensorNames(Checkpoint(folder), {})
    layers = spec(config, "text-generation", names).decoder.layers
    assert [number for number, block in enumerate(layers) if block.has_keys] == [4, 8]


def test_nothing_is_tied(folder):
    described(folder, tie_word_embeddings=True)
    assert not resolved(folder).spec.head.tied


REFUSED = {
    "no layer has attention": {"layer_types": ["linear_attention"] * 3},
    "expected linear_attention or full_attention": {"layer_types": ["mamba"] * 3},
    "expected each of 3 layers, counted from 1, in one of them": {
        "layer_types": None,
        "linear_attn_config": LISTS["linear_attn_config"] | {"kda_layers": [1, 2, 3]},
    },
    "hidden_act is not silu, which Kimi delta attention needs": {"hidden_act": "gelu"},
    "mla_use_nope=False is not supported": {"mla_use_nope": False},
    "moe_router_activation_func='softmax' is not": {"moe_router_activation_func": "softmax"},
    "moe_layer_freq=2 is not supported": {"moe_layer_freq": 2},
    "num_key_value_heads=1 is not supported": {"num_key_value_heads": 1},
}


@pytest.mark.parametrize(("message", "settings"), REFUSED.items(), ids=REFUSED)
def test_settings_that_are_refused(message, settings, folder):
    described(folder, **settings)
    with pytest.raises((UnsupportedError, CheckpointError), match=message):
        resolved(folder)
