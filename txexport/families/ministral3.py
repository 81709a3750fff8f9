"""Ministral 3 (Mistral AI 2025): Mistral with YaRN, whose queries grow with their positions."""

from dataclasses import replace
from typing import Any

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.families._rope import scaling
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    LatentAttentionSpec,
    QueryGrowthSpec,
    TextStackSpec,
)

TASKS = _causal.tasks("Ministral3")

NAMING = llama.NAMING
table = llama.table
ROPE: dict[str, Any] = {
    "rope_type": "yarn",
    "rope_theta": 1e6,
    "factor": 16.0,
    "original_max_position_embeddings": 16384,
    "mscale": 1.0,
    "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; a missing sliding_window means none."""
    config = config.with_defaults(head_dim=128, num_key_value_heads=8, rms_norm_eps=1e-5)
    config = with_rope(config, ROPE)
    config.expect(layer_types=None)
    has_window = config.values.get("sliding_window") is not None
    window = config.integer("sliding_window") if has_window else None
    stack = llama.stack_spec(config, windows=(window,))
    return _causal.model(config, task, growing(config, stack), tied=False)


def with_rope(config: Config, default: dict[str, Any]) -> Config:
    """The settings with those of RoPE, `default` where there are none."""
    values, _ = scaling(config)
    return config.replaced(rope_parameters=dict(values.values) or default, rope_scaling=None)


def growing(config: Config, stack: TextStackSpec) -> TextStackSpec:
    """`stack` with queries that grow at every multiple of the original length; by 0 they do not."""
    values, _ = scaling(config)
    rate = values.number("llama_4_scaling_beta")
    if rate == 0:
        return stack
    growth = QueryGrowthSpec(rate, values.integer("original_max_position_embeddings"))

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        attention = block.attention
        assert isinstance(attention, AttentionSpec | LatentAttentionSpec)
        assert attention.rotary is not None
        return replace(block, attention=replace(attention, rotary=replace(attention.rotary, growth=growth)))

    return _causal.each_layer(stack, varied)
