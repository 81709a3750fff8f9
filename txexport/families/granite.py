"""Granite 3 (IBM 2024): LLaMA with multipliers of embeddings, attention scores, residuals, and logits."""

from dataclasses import replace

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, TextStackSpec

TASKS = {"text-generation": ("GraniteForCausalLM",), "feature-extraction": ("GraniteModel",)}

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    stack = stack_spec(config, config.number("attention_multiplier", 1.0), NormPlacement.PRE)
    return _causal.model(config, task, stack, tied=False, scale=1 / config.number("logits_scaling", 1.0))


def stack_spec(config: Config, scale: float, placement: NormPlacement) -> TextStackSpec:
    """LLaMA's layers with that norm placement and the multipliers of embeddings, residuals and scores."""
    bias, residual_scale = config.flag("attention_bias", False), config.number("residual_multiplier", 1.0)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        attention = replace(block.dense, scale=scale)
        return replace(block, attention=attention, placement=placement, residual_scale=residual_scale)

    feed_forward_bias = config.flag("mlp_bias", False)
    stack = llama.stack_spec(config, bias=bias, output_bias=bias, feed_forward_bias=feed_forward_bias)
    embedding = replace(stack.embedding, scale=config.number("embedding_multiplier", 1.0))
    return replace(_causal.each_layer(stack, varied), embedding=embedding)
