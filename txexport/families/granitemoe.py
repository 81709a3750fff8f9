"""Granite 3 MoE (IBM 2024): Granite with a mixture of experts in every layer."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, granite, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    NormPlacement,
    TextStackSpec,
)

TASKS = {"text-generation": ("GraniteMoeForCausalLM",), "feature-extraction": ("GraniteMoeModel",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return decoder_spec(config, task, stack_spec(config, None))


def decoder_spec(config: Config, task: str, stack: TextStackSpec) -> EncoderSpec | DecoderSpec:
    """`stack` under its head, whose logits are scaled."""
    return _causal.model(config, task, stack, tied=False, scale=1 / config.number("logits_scaling", 1.0))


def stack_spec(config: Config, shared: int | None) -> TextStackSpec:
    """The stack with a shared network of that width, or none.

    `mlp_bias` is not read, since experts have none.
    """
    num_experts, top_k = config.count("num_local_experts", 8), config.integer("num_experts_per_tok", 2)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        expert = block.feed_forward
        assert isinstance(expert, FeedForwardSpec)
        beside = None if shared is None else replace(expert, intermediate_size=shared)
        mixture = ExpertsSpec(expert, num_experts, top_k, shared=beside, shared_gated=False)
        return replace(block, feed_forward=mixture)

    config = config.replaced(mlp_bias=False)
    stack = granite.stack_spec(config, config.number("attention_multiplier", 1.0), NormPlacement.PRE)
    return _causal.each_layer(stack, varied)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with experts stacked (experts,out,in), all gate rows before the up rows."""
    inherited, mixed = llama.table(spec), spec.stack.blocks[0].feed_forward
    layer, source = f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward", "layers.{i}.block_sparse_moe"
    assert isinstance(mixed, ExpertsSpec)
    rules: Rules = {f"{layer}.router.*": f"{source}.router.layer.*"}
    for number in range(mixed.num_experts):
        expert = Take(f"{source}.input_linear.weight", expert=number, experts=mixed.num_experts)
        rules[f"{layer}.experts.{number}.gate.weight"] = replace(expert, parts=2)
        rules[f"{layer}.experts.{number}.up.weight"] = replace(expert, part=1, parts=2)
        rules[f"{layer}.experts.{number}.down.weight"] = replace(
            expert, source=f"{source}.output_linear.weight"
        )
    return Table(inherited.rules | rules, NAMING, inherited.drop)
