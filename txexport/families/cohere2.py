"""Command R7B and A (Cohere 2024): Command R with sliding-window layers.

Full-attention layers have no RoPE.
"""

from dataclasses import replace

from txexport.families import _causal, cohere
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Cohere2ForCausalLM",), "feature-extraction": ("Cohere2Model",)}

NAMING = cohere.NAMING
table = cohere.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config = config.replaced(head_dim=config.head_dim(width, heads))  # the original ignores the file's value
    window, every = config.integer("sliding_window", 4096), config.integer("sliding_window_pattern", 4)
    local = config.local_layers(lambda layer: bool((layer + 1) % every))

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return block if local[layer] else replace(block, attention=replace(block.dense, rotary=None))

    stack = cohere.stack_spec(config, [window if windowed else None for windowed in local])
    return cohere.decoder_spec(config, task, _causal.each_layer(stack, varied))
