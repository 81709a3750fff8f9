"""RecurrentGemma as its checkpoints are published."""

import json
from pathlib import Path

import pytest
import tiny_checkpoint
import torch
import transformers

from txexport import export, families, load
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.errors import CheckpointError
from txexport.families._config import Config
from txexport.spec import AttentionSpec, RgLruSpec

# config.json of google/recurrentgemma-2b, without what is alike in all its sizes and read nowhere.
PUBLISHED = {
    **{"attention_bias": False, "attention_window_size": 2048, "conv1d_width": 4, "head_dim": 256},
    **{"_block_types": ["recurrent", "recurrent", "attention"], "embeddings_scale_by_sqrt_dim": True},
    **{"hidden_activation": "gelu_pytorch_tanh", "hidden_size": 2560, "intermediate_size": 15360},
    **{"logits_soft_cap": 30.0, "lru_width": 2560, "num_attention_heads": 10, "num_hidden_layers": 26},
    **{"num_key_value_heads": 1, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-6},
    **{"rope_theta": 10000.0, "vocab_size": 256000},
}


def described(values: dict) -> object:
    """The spec of a config.json alone."""
    return families.module("recurrent_gemma").spec(Config(values, Path("config.json")), "text-generation", {})


def test_the_published_model():
    spec = described(PUBLISHED)
    layers = spec.decoder.layers
    assert [number for number, block in enumerate(layers) if block.has_keys] == [*range(2, 26, 3)]
    attention, recurrence = layers[2].attention, layers[0].attention
    assert isinstance(attention, AttentionSpec)
    assert (attention.num_heads, attention.num_kv_heads, attention.window) == (10, 1, 2048)
    assert len(attention.rotary.frequencies) == 64
    assert isinstance(recurrence, RgLruSpec)
    assert recurrence.states == {"conv": (2560, 4), "recurrent": (2560,)}
    assert layers[0].feed_forward.intermediate_size == 7680
    assert spec.head.softcap == 30.0
    assert spec.head.tied


@pytest.mark.parametrize("width", [48, 96, 2560, 4096, 5000])
def test_embeddings_are_scaled_by_a_number_of_bfloat16(width):
    """50.5 for a width of 2560, whose root is 50.6; half way between two numbers, the even one."""
    spec = described(PUBLISHED | {"hidden_size": width, "num_attention_heads": 8, "lru_width": 80})
    assert spec.decoder.embedding.scale == torch.tensor(width**0.5, dtype=torch.bfloat16).item()


def test_layers_take_turns_from_the_first():
    """The last repetition of the pattern may be cut off."""
    for kinds in (["attention", "recurrent"], ["recurrent", "attention", "attention"]):
        config = transformers.RecurrentGemmaConfig(num_hidden_layers=7, block_types=kinds)
        expected = [kind == "sliding_attention" for kind in config.layers_block_type]
        for key in ("block_types", "_block_types"):
            layers = described(PUBLISHED | {"num_hidden_layers": 7, key: kinds}).decoder.layers
            assert [block.has_keys for block in layers] == expected


def test_a_prompt_of_one_token_begins_anew(tmp_path):
    """The original's layers keep their states, from which such a prompt goes on; ours do not."""
    tiny_checkpoint.save(tmp_path / "in", "recurrent_gemma", lru_width=48)
    export(tmp_path / "in", tmp_path / "out", only="native")
    ours = load(tmp_path / "out", device="cpu")
    original = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "in").eval()
    options = {"max_new_tokens": 8, "do_sample": False, "eos_token_id": None, "no_repeat_ngram_size": 1}
    resumed, anew = ({"use_cache": keeps} | options for keeps in (True, False))
    before, prompt = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[9]])
    original.generate(before, **resumed)
    continued = original.generate(prompt, **resumed).tolist()[0][1:]
    expected = original.generate(prompt, **anew).tolist()[0][1:]
    ours.generate_ids(before.tolist(), **options)
    assert ours.generate_ids(prompt.tolist(), **options) == [expected]
    assert continued != expected


def test_a_width_that_heads_do_not_divide_is_refused(tmp_path):
    tiny_checkpoint.save(tmp_path / "in", "recurrent_gemma")
    file = tmp_path / "in" / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"lru_width": 62}))
    with pytest.raises(CheckpointError, match="width is 62, which 6 blocks do not divide evenly"):
        families.resolve(Checkpoint(tmp_path / "in"), "text-generation")
