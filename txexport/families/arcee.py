"""Arcee AFM (Arcee 2025): LLaMA with squared ReLU instead of a gated feed-forward."""

from dataclasses import replace

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, FeedForwardSpec, TextStackSpec

TASKS = _causal.tasks("Arcee")

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return _causal.model(config, task, stack_spec(config.with_defaults(rms_norm_eps=1e-5)), tied=False)


def stack_spec(config: Config, fraction: str | None = None) -> TextStackSpec:
    """The stack; `fraction` is the name of partial_rotary_factor."""
    bias, activation = config.flag("attention_bias", False), config.activation("hidden_act", "relu2")

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        assert isinstance(block.feed_forward, FeedForwardSpec)
        return replace(block, feed_forward=replace(block.feed_forward, activation=activation, gated=False))

    stack = llama.stack_spec(
        config,
        bias=bias,
        output_bias=bias,
        feed_forward_bias=config.flag("mlp_bias", False),
        fraction=fraction,
    )
    return _causal.each_layer(stack, varied)
