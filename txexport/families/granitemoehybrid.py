"""Granite 4 (IBM 2025): Mamba-2 layers beside attention or none, experts beside a shared network or none."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import _causal, _mamba2, granite, granitemoe, granitemoeshared, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    NormPlacement,
)

TASKS = {"text-generation": ("GraniteMoeHybridForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {"layers_block_type": "layer_types"}
ATTENDS = {"mamba": False, "linear_attention": False, "attention": True, "full_attention": True}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; without RoPE, attention has no positions (NoPE)."""
    experts, top_k = config.count("num_local_experts", 8), config.integer("num_experts_per_tok", 2)
    width, shared = (
        config.integer("intermediate_size", 11_008),
        config.integer("shared_intermediate_size", 1024),
    )
    rotates = config.values.get("position_embedding_type") == "rope"
    config = config.with_defaults(rms_norm_eps=1e-6).replaced(mlp_bias=False, intermediate_size=shared)
    config = config if rotates else config.replaced(rope_parameters=None, rope_scaling=None)
    stack = granite.stack_spec(config, config.number("attention_multiplier", 1.0), NormPlacement.PRE)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        network = block.feed_forward
        assert isinstance(network, FeedForwardSpec)
        if experts:
            expert = replace(network, intermediate_size=width)
            network = ExpertsSpec(expert, experts, top_k, shared=network, shared_gated=False)
        attention = block.dense if rotates else replace(block.dense, rotary=None)
        return replace(block, attention=attention, feed_forward=network)

    kinds = config.layer_types(*ATTENDS) or ["mamba"] * stack.num_layers
    attends = [ATTENDS[kind] for kind in kinds]
    stack = _causal.beside_attention(
        config,
        _causal.each_layer(stack, varied),
        attends,
        lambda: _mamba2.layer(config, stack.hidden_size),
    )
    return _causal.model(config, task, stack, tied=False, scale=1 / config.number("logits_scaling", 1.0))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Granite 3 MoE's or LLaMA's, with Mamba-2 layers; one tensor holds the shared gate and up rows."""
    mixed = isinstance(spec.stack.blocks[0].feed_forward, ExpertsSpec)
    inherited = granitemoe.table(spec) if mixed else llama.table(spec)
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}"
    network = f"{layer}.feed_forward.shared" if mixed else f"{layer}.feed_forward"
    rules = granitemoeshared.shared_rules(network) | _mamba2.rules(f"{layer}.attention", "layers.{i}.mamba")
    return Table(inherited.rules | rules, NAMING, inherited.drop)
