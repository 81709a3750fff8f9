"""Seed-OSS (ByteDance Seed Team 2025): LLaMA with biases of query, key and value."""

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("SeedOss")

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return llama.decoder_spec(
        config.with_defaults(head_dim=128, num_key_value_heads=8),
        task,
        bias=config.flag("attention_bias", True),
        output_bias=config.flag("attention_out_bias", False),
        feed_forward_bias=config.flag("mlp_bias", False),
    )
