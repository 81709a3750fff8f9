"""AFMoE (Arcee AI 2025, Trinity): gated attention, norms around sublayers, and the experts of DeepSeek-V3."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, gemma, llama, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    NormPlacement,
)

TASKS = {"text-generation": ("AfmoeForCausalLM",), "feature-extraction": ("AfmoeModel",)}

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; layers with full attention have no RoPE.

    Published files also state what holds for all of this family.
    """
    config = config.with_defaults(head_dim=128, rms_norm_eps=1e-5)
    config.expect(attention_bias=False, score_func="sigmoid", route_norm=True, n_group=1, topk_group=1)
    config.expect(num_expert_groups=1, num_limited_groups=1)
    every, window = config.integer("global_attn_every_n_layers", 4), config.integer("sliding_window", 1024)
    local = config.local_layers(lambda layer: bool((layer + 1) % every))
    dense, width = config.integer("num_dense_layers", 1), config.integer("moe_intermediate_size", 1408)
    num_experts, top_k = config.count("num_experts", 64), config.integer("num_experts_per_tok", 6)
    together, scale = config.integer("num_shared_experts", 2) * width, config.number("route_scale", 1.0)

    def mixture(network: FeedForwardSpec) -> ExpertsSpec:
        expert, shared = (replace(network, intermediate_size=size) for size in (width, together))
        return ExpertsSpec(
            expert, num_experts, top_k, shared=shared, shared_gated=False, corrected=True, scale=scale
        )

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        rotary, network = block.dense.rotary if local[layer] else None, block.feed_forward
        assert isinstance(network, FeedForwardSpec)
        return replace(
            block,
            attention=replace(block.dense, gated_output=True, rotary=rotary),
            feed_forward=network if layer < dense else mixture(network),
            placement=NormPlacement.SANDWICH,
        )

    stack = llama.stack_spec(
        config, head_norm=True, windows=[window if windowed else None for windowed in local]
    )
    if config.flag("mup_enabled", False):
        stack = gemma.scaled_words(stack)
    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As that of experts, with the gate of attention, norms after sublayers too, and a shared expert."""
    inherited, layer = qwen3_moe.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {
        f"{layer}.attention.output_gate.*": "layers.{i}.self_attn.gate_proj.*",
        f"{layer}.attention_post_norm.*": "layers.{i}.post_attention_layernorm.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.pre_mlp_layernorm.*",
        f"{layer}.feed_forward_post_norm.*": "layers.{i}.post_mlp_layernorm.*",
        f"{layer}.feed_forward.router.weight": "layers.{i}.mlp.router.gate.weight",
        f"{layer}.feed_forward.router.correction": "layers.{i}.mlp.expert_bias",
        **{
            f"{layer}.feed_forward.shared.{name}.*": f"layers.{{i}}.mlp.shared_experts.{name}_proj.*"
            for name in ("gate", "up", "down")
        },
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
