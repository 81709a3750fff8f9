"""Qwen2 (Yang et al. 2024): LLaMA with biases on queries, keys and values."""

from collections.abc import Set

from txexport.families import llama
from txexport.families._config import Config
from txexport.spec import ModelSpec

TASKS = {"text-generation": ("Qwen2ForCausalLM",), "feature-extraction": ("Qwen2Model",)}

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: Set[str]) -> ModelSpec:
    """The architecture that config.json describes."""
    refuse_mixed_layers(config)
    return llama.decoder_spec(config, task, bias=True)


def refuse_mixed_layers(config: Config) -> None:
    """Raise UnsupportedError where a layer has a window: all layers of a stack are equal so far."""
    layers = config.integer("num_hidden_layers")
    config.expect(layer_types=["full_attention"] * layers)
    if config.integer("max_window_layers", 28) < layers:
        config.expect(use_sliding_window=False)
