"""Command A+ and North Mini (Cohere 2026): Command A's layers, most of them with experts."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table, Take
from txexport.families import _causal, cohere, deepseek_v2
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    NormKind,
    NormSpec,
)

TASKS = {"text-generation": ("Cohere2MoeForCausalLM",), "feature-extraction": ("Cohere2MoeModel",)}

NAMING = cohere.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes.

    Layers with a sliding window have RoPE, and so have those without experts, unless their windows have a
    pattern of their own.
    """
    config = config.with_defaults(head_dim=128)
    window, local = config.integer("sliding_window", 4096), _local(config)
    dense, turned = config.dense_layers(0), config.integer("prefix_dense_sliding_window_pattern", 1) == 1
    width = config.integer("prefix_dense_intermediate_size", config.integer("intermediate_size"))
    stack = cohere.stack_spec(config, [window if one else None for one in local])
    norm = stack.blocks[0].norm
    if config.values.get("rms_norm_eps") is not None:
        norm = NormSpec(stack.hidden_size, config.number("rms_norm_eps"), NormKind.RMS)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        network, turns = block.feed_forward, local[layer] or (dense[layer] and turned)
        assert isinstance(network, FeedForwardSpec)
        plain = replace(network, intermediate_size=width)
        return replace(
            block,
            attention=block.dense if turns else replace(block.dense, rotary=None),
            feed_forward=plain if dense[layer] else _experts(config, network),
            norm=norm,
        )

    return cohere.decoder_spec(config, task, replace(_causal.each_layer(stack, varied), final_norm=norm))


def _local(config: Config) -> list[bool]:
    """For each layer, tell whether it has a window; the first dense layers have a pattern of their own."""
    first = config.integer("first_k_dense_replace", 0)
    every, of_dense = (
        config.integer(key, default)
        for key, default in (("sliding_window_pattern", 4), ("prefix_dense_sliding_window_pattern", 1))
    )
    return config.local_layers(
        lambda layer: bool((layer + 1) % of_dense if layer < first else (layer - first + 1) % every)
    )


def _experts(config: Config, expert: FeedForwardSpec) -> ExpertsSpec:
    """Experts, and a shared network as wide as `num_shared_experts`, or none; their mean halves both."""
    config.expect(shared_expert_combination_strategy="average")
    count = config.integer("num_shared_experts", 0)
    sigmoid = config.text("expert_selection_fn", "softmax") != "softmax"
    if sigmoid:
        config.expect(expert_selection_fn="sigmoid")
    return ExpertsSpec(
        expert,
        config.count("num_experts", 8),
        config.integer("num_experts_per_tok", 2),
        normalised=config.flag("norm_topk_prob", True) or not sigmoid,
        shared=replace(expert, intermediate_size=count * expert.intermediate_size) if count else None,
        shared_gated=False,
        sigmoid=sigmoid,
        scale=0.5 if count else 1.0,
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Command R's and those of experts."""
    stack, inherited, mixed = _causal.stack_name(spec), cohere.table(spec), deepseek_v2.experts_table(spec)
    network = f"{stack}.layers.{{i}}.feed_forward"
    half = ((spec.stack.hidden_size, 0.5),)
    shared = Take("layers.{i}.mlp.shared_experts.down_proj.*", times=half)
    rules = mixed.rules | inherited.rules | {f"{network}.shared.down.*": shared}
    return Table(rules, NAMING, mixed.drop)
