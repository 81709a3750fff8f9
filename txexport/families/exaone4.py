"""EXAONE 4 (LG AI Research 2025): QK-norm and post-sublayer norm; RoPE in sliding-window layers alone."""

from dataclasses import replace

from txexport.families import _causal, llama, olmo2
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, TextStackSpec

TASKS = _causal.tasks("Exaone4")

NAMING = olmo2.NAMING
table = olmo2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return _causal.model(config, task, stack_spec(config, NormPlacement.RES_POST), tied=False)


def stack_spec(config: Config, placement: NormPlacement) -> TextStackSpec:
    """The stack with that norm placement; without sliding windows, all layers have RoPE."""
    config = config.with_defaults(num_key_value_heads=32, rms_norm_eps=1e-5)
    local = _local(config)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        turned = block.dense if local is None or local[layer] else replace(block.dense, rotary=None)
        return replace(block, attention=turned, placement=placement)

    window = config.integer("sliding_window", 4096) if local else None
    windows = [None] if local is None else [window if windowed else None for windowed in local]
    stack = llama.stack_spec(config, head_norm=True, windows=windows)
    return _causal.each_layer(stack, varied)


def _local(config: Config) -> list[bool] | None:
    """For each layer, tell whether it has a sliding window; None where there is no window."""
    layers = config.count("num_hidden_layers")
    if "sliding_window" in config.values and config.values["sliding_window"] is None:
        config.expect(layer_types=["full_attention"] * layers)
        return None
    return config.local_layers(lambda layer: bool((layer + 1) % config.integer("sliding_window_pattern", 4)))
