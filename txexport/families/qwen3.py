"""Qwen3 (Yang et al. 2025): LLaMA with QK-norm on every head."""

from txexport.families import _causal, llama, qwen2
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Qwen3")

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(head_dim=128, num_key_value_heads=32)
    bias = config.flag("attention_bias", False)
    windows = qwen2.windows(config)
    return llama.decoder_spec(config, task, bias=bias, output_bias=bias, head_norm=True, windows=windows)
