"""Qwen3-Next (Qwen Team 2025): gated delta rules, gated attention in some layers, and experts."""

from dataclasses import replace
from math import gcd

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama, qwen2_moe, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    GatedDeltaSpec,
    NormKind,
    NormSpec,
    TextStackSpec,
)

TASKS = {"text-generation": ("Qwen3NextForCausalLM",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        num_key_value_heads=2,
        num_experts=512,
        num_experts_per_tok=10,
        moe_intermediate_size=512,
        norm_topk_prob=True,
    )
    shared = config.integer("shared_expert_intermediate_size", 512)
    stack = qwen3_moe.mixed(config, stack_spec(config), shared)
    return _causal.model(config, task, stack, tied=False)


def stack_spec(config: Config) -> TextStackSpec:
    """Delta rules and gated attention, with the feed-forward network of a dense model."""
    config = config.with_defaults(head_dim=256, partial_rotary_factor=0.25)
    bias = config.flag("attention_bias", False)
    stack = llama.stack_spec(
        config, bias=bias, output_bias=bias, head_norm=True, fraction="partial_rotary_factor"
    )

    def gated(_: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, gated_output=True))

    stack, attends = _causal.each_layer(stack, gated), _attends(config, stack.num_layers)
    return _causal.beside_attention(config, stack, attends, lambda: _delta(config, stack.hidden_size))


def _delta(config: Config, width: int) -> GatedDeltaSpec:
    """The delta rule; the activation of the model is that behind its convolution too."""
    _causal.expect_silu(config, "a delta rule")
    value_dim = config.integer("linear_value_head_dim", 128)
    return GatedDeltaSpec(
        width,
        config.integer("linear_num_key_heads", 16),
        config.integer("linear_num_value_heads", 32),
        config.integer("linear_key_head_dim", 128),
        value_dim,
        config.integer("linear_conv_kernel_dim", 4),
        NormSpec(value_dim, config.number("rms_norm_eps", 1e-6), NormKind.RMS),
    )


def _attends(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has attention: by layer_types, or every fourth."""
    kinds = config.layer_types("linear_attention", "full_attention")
    every = config.integer("full_attention_interval", 4)
    if not kinds:
        return [(layer + 1) % every == 0 for layer in range(count)]
    return [kind == "full_attention" for kind in kinds]


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Qwen2-MoE's. One tensor has the queries, keys, values and gates of each head of keys in turn, and
    another one beta and the decay.
    """
    delta = delta_of(spec)
    heads, values = delta.num_key_heads, delta.num_value_heads // delta.num_key_heads * delta.value_dim
    unit = gcd(delta.key_dim, values)
    sizes = [delta.key_dim // unit] * 2 + [values // unit] * 2
    mixer, source = f"{_causal.stack_name(spec)}.layers.{{i}}.attention", "layers.{i}.linear_attn"
    rules: Rules = {}
    for number, name in enumerate(("query", "key", "value", "gate")):
        first, width = sum(sizes[:number]), sizes[number]
        rules[f"{mixer}.{name}.weight"] = Take(
            f"{source}.in_proj_qkvz.weight", part=first, parts=sum(sizes), groups=heads, width=width
        )
    for number, name in enumerate(("beta", "decay")):
        rules[f"{mixer}.{name}.weight"] = Take(
            f"{source}.in_proj_ba.weight", part=number, parts=2, groups=heads
        )
    return with_delta(spec, qwen2_moe.table(spec), rules)


def delta_of(spec: EncoderSpec | DecoderSpec) -> GatedDeltaSpec:
    """The delta rule of all layers that have one."""
    kinds = (block.attention for block in spec.stack.blocks)
    return next(kind for kind in kinds if isinstance(kind, GatedDeltaSpec))


def with_delta(spec: EncoderSpec | DecoderSpec, inherited: Table, projections: Rules) -> Table:
    """`inherited` with gated attention and delta rules, whose `projections` are given."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    mixer, source, attention = f"{layer}.attention", "layers.{i}.linear_attn", "layers.{i}.self_attn"
    heads = next(block.dense.num_heads for block in spec.stack.blocks if block.has_keys)
    rules: Rules = {
        f"{mixer}.q.*": Take(f"{attention}.q_proj.*", part=0, parts=2, groups=heads),
        f"{mixer}.output_gate.*": Take(f"{attention}.q_proj.*", part=1, parts=2, groups=heads),
        f"{mixer}.q_norm.*": Take(f"{attention}.q_norm.*", plus=1.0),
        f"{mixer}.k_norm.*": Take(f"{attention}.k_norm.*", plus=1.0),
        f"{mixer}.convolution.*": f"{source}.conv1d.*",
        f"{mixer}.rate": f"{source}.A_log",
        f"{mixer}.step": f"{source}.dt_bias",
        f"{mixer}.head_norm.*": f"{source}.norm.*",
        f"{mixer}.output.*": f"{source}.out_proj.*",
        f"{layer}.attention_norm.*": Take("layers.{i}.input_layernorm.*", plus=1.0),
        f"{layer}.feed_forward_norm.*": Take("layers.{i}.post_attention_layernorm.*", plus=1.0),
        f"{stack}.final_norm.*": Take("norm.*", plus=1.0),
    }
    return Table(inherited.rules | rules | projections, NAMING, (*inherited.drop, "mtp.*"))
