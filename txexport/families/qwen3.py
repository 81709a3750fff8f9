"""Qwen3 (Yang et al. 2025): LLaMA with a norm on every query and key head."""

from collections.abc import Set

from txexport.families import llama, qwen2
from txexport.families._config import Config
from txexport.spec import ModelSpec

TASKS = {"text-generation": ("Qwen3ForCausalLM",), "feature-extraction": ("Qwen3Model",)}

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: Set[str]) -> ModelSpec:
    """The architecture that config.json describes."""
    qwen2.refuse_mixed_layers(config)
    bias = config.flag("attention_bias", False)
    return llama.decoder_spec(config, task, bias=bias, output_bias=bias, head_norm=True)
