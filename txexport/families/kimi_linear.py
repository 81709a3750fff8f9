"""Kimi Linear (Kimi Team 2025): Kimi delta attention, latent attention without positions, and experts."""

from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Rules, Table, Take, taken
from txexport.errors import CheckpointError
from txexport.families import _causal, deepseek_v2, deepseek_v3, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    KimiDeltaSpec,
    LatentAttentionSpec,
    NormKind,
    NormSpec,
    TextStackSpec,
)

TASKS = {"text-generation": ("KimiLinearForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {
    "max_position_embeddings": "model_max_length",
    "norm_topk_prob": "moe_renormalize",
    "n_group": "num_expert_group",
    "num_local_experts": "num_experts",
    "num_experts_per_tok": "num_experts_per_token",
    "n_shared_experts": "num_shared_experts",
}
PUBLISHED_WITH_CODE = True
# Values of attention's positions in config.json, which the original does not read, and a size of RoPE.
WITHOUT_POSITIONS: dict[str, Any] = dict.fromkeys(
    ("rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor")
)
WITHOUT_POSITIONS |= {"qk_rope_head_dim": 2}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; the original ties nothing."""
    config = config.replaced(tie_word_embeddings=False)
    config.expect(mla_use_nope=True, moe_router_activation_func="sigmoid")
    config = config.renamed({theirs: ours for ours, theirs in ALIASES.items()})
    config = config.renamed({"num_local_experts": "n_routed_experts"}).with_defaults(
        max_position_embeddings=1048576,
        rms_norm_eps=1e-5,
        q_lora_rank=None,
        moe_intermediate_size=1024,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    router = deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=2.446)
    stack = _latent_stack(config)
    mixed = deepseek_v2.mixed(config.replaced(first_k_dense_replace=0), stack, 0, **router).layers
    dense = config.dense_layers(1)
    stack = _causal.each_layer(stack, lambda layer, block: block if dense[layer] else mixed[layer])
    attends = _attends(config, stack.num_layers)
    stack = _causal.beside_attention(config, stack, attends, lambda: _delta(config, stack.hidden_size))
    return _causal.model(config, task, stack, tied=False)


def _latent_stack(config: Config) -> TextStackSpec:
    """DeepSeek-V2's stack without RoPE: what it would rotate is used as it is."""
    stack = deepseek_v2.latent_stack(config.replaced(**WITHOUT_POSITIONS))
    shared = config.integer("qk_rope_head_dim", 64)

    def varied(_: int, block: BlockSpec) -> BlockSpec:
        attention = block.attention
        assert isinstance(attention, LatentAttentionSpec)
        scale = (attention.qk_nope_head_dim + shared) ** -0.5
        return replace(block, attention=replace(attention, rotary=None, shared_dim=shared, scale=scale))

    return _causal.each_layer(stack, varied)


def _attends(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has attention: by layer_types, by the lists of published files, which
    count from 1, or every fourth after the first. Raises CheckpointError unless a layer is in one list.
    """
    kinds, lists = (
        config.layer_types("linear_attention", "full_attention"),
        config.table("linear_attn_config"),
    )
    if kinds:
        return [kind == "full_attention" for kind in kinds]
    names = "full_attn_layers", "kda_layers"
    if not all(name in lists.values for name in names):
        return [layer > 0 and layer % 4 == 0 for layer in range(count)]
    attention, delta = (lists.integers(name) for name in names)
    if sorted(attention + delta) != list(range(1, count + 1)):
        raise CheckpointError(
            f"{config.path}: full_attn_layers and kda_layers of linear_attn_config are {attention} and "
            f"{delta}; expected each of {count} layers, counted from 1, in one of them"
        )
    return [layer + 1 in attention for layer in range(count)]


def _delta(config: Config, width: int) -> KimiDeltaSpec:
    """Kimi delta attention; the activation of the model is that behind its convolution too."""
    _causal.expect_silu(config, "Kimi delta attention")
    nested = config.table("linear_attn_config")
    head_dim = nested.integer("head_dim", config.integer("linear_head_dim", 128))
    return KimiDeltaSpec(
        width,
        nested.integer("num_heads", config.integer("linear_num_heads", 32)),
        head_dim,
        nested.integer("short_conv_kernel_size", config.integer("linear_conv_kernel_dim", 4)),
        NormSpec(head_dim, config.number("rms_norm_eps", 1e-5), NormKind.RMS),
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As DeepSeek-V2's, with Kimi delta attention, and other names of experts.

    Dense networks have the experts' prefix too where transformers saved them.
    """
    inherited, layer = deepseek_v2.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {}
    for name, rule in inherited.rules.items():
        take = taken(rule)
        other = take.source.replace(".mlp.", ".block_sparse_moe.")
        rules[name] = take if other == take.source else replace(take, source=other, also=(take.source,))
    mixer, source = f"{layer}.attention", "layers.{i}.self_attn"
    convolutions = [f"{source}.{name}_conv1d.weight" for name in "qkv"]
    rules |= {
        f"{mixer}.convolution.weight": Take(convolutions[0], joined=tuple(convolutions[1:])),
        f"{mixer}.step": f"{source}.dt_bias",
        f"{mixer}.head_norm.*": f"{source}.o_norm.*",
    }
    projections = {"query": "q", "key": "k", "value": "v", "beta": "b", "output": "o"}
    projections |= {"decay_down": "f_a", "decay_up": "f_b", "gate_down": "g_a", "gate_up": "g_b"}
    rules |= {f"{mixer}.{ours}.*": f"{source}.{theirs}_proj.*" for ours, theirs in projections.items()}
    for block in spec.stack.blocks:
        if isinstance(block.attention, KimiDeltaSpec):
            axes = 1, 1, block.attention.num_delta_heads, 1
            rules[f"{mixer}.rate"] = Take(f"{source}.A_log", apart=axes)
        if isinstance(block.feed_forward, ExpertsSpec):
            rules |= _experts(f"{layer}.feed_forward", block.feed_forward.num_experts)
    return Table(rules, NAMING, inherited.drop)


def _experts(network: str, count: int) -> Rules:
    """The rules of `count` experts."""
    names = {"gate": "w1", "down": "w2", "up": "w3"}
    return {
        f"{network}.experts.{number}.{ours}.*": f"layers.{{i}}.block_sparse_moe.experts.{number}.{theirs}.*"
        for number in range(count)
        for ours, theirs in names.items()
    }
