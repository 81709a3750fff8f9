"""SmolLM3 (Bakouch et al. 2025): LLaMA without RoPE in every fourth layer."""

from dataclasses import replace

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec

TASKS = _causal.tasks("SmolLM3")

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; only layers without RoPE may have a sliding window."""
    config = config.with_defaults(num_key_value_heads=4, rope_theta=2e6)
    rotates, bias = _rotates(config), config.flag("attention_bias", False)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return block if rotates[layer] else replace(block, attention=replace(block.dense, rotary=None))

    stack = llama.stack_spec(
        config,
        bias=bias,
        output_bias=bias,
        feed_forward_bias=config.flag("mlp_bias", False),
        windows=_windows(config, rotates),
    )
    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=True)


def _rotates(config: Config) -> list[bool]:
    """For each layer, tell whether it has RoPE: by `no_rope_layers`, where 0 means none."""
    layers, every = config.count("num_hidden_layers"), config.integer("no_rope_layer_interval", 4)
    if config.values.get("no_rope_layers") is None:
        return [bool((layer + 1) % every) for layer in range(layers)]
    return [bool(has_rope) for has_rope in config.each("no_rope_layers", layers, 1)]


def _windows(config: Config, rotates: list[bool]) -> list[int | None]:
    """The sliding window of every layer."""
    if not config.flag("use_sliding_window", False) or config.values.get("sliding_window") is None:
        config.expect(layer_types=["full_attention"] * len(rotates))
        return [None] * len(rotates)
    window = config.integer("sliding_window")
    return [window if local else None for local in config.local_layers(lambda layer: not rotates[layer])]
