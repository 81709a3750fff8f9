"""Mistral (Jiang et al. 2023): LLaMA with grouped-query attention and a sliding window."""

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Mistral")

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; a null sliding_window means none, a missing one 4096."""
    config = config.with_defaults(num_key_value_heads=8)
    config.expect(layer_types=None)
    window = config.integer("sliding_window", 4096)
    has_window = "sliding_window" not in config.values or config.values["sliding_window"] is not None
    return llama.decoder_spec(config, task, windows=(window if has_window else None,))
