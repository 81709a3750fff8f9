"""Qwen2 (Yang et al. 2024): LLaMA with biases of query, key and value."""

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Qwen2")

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(num_key_value_heads=32)
    return llama.decoder_spec(config, task, bias=True, windows=windows(config))


def windows(config: Config) -> list[int | None]:
    """The sliding window of every layer: by layer_types, or of layers from max_window_layers on."""
    layers = config.count("num_hidden_layers")
    if not config.flag("use_sliding_window", False):
        config.expect(layer_types=["full_attention"] * layers)
        return [None] * layers
    window, first = config.integer("sliding_window", 4096), config.integer("max_window_layers", 28)
    return [window if local else None for local in config.local_layers(lambda layer: layer >= first)]
