"""DeepSeek-V2 (DeepSeek-AI 2024): multi-head latent attention and a mixture of many experts."""

from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.families._rope import latent_scale
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    LatentAttentionSpec,
    NormKind,
    NormSpec,
    TextStackSpec,
)

TASKS = {
    "text-generation": ("DeepseekV2ForCausalLM",),
    "text-classification": ("DeepseekV2ForSequenceClassification",),
    "feature-extraction": ("DeepseekV2Model",),
}

NAMING = llama.NAMING
ALIASES = {"num_experts": "n_routed_experts"}
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; routing weights are softmax scores over all experts."""
    config = config.with_defaults(moe_intermediate_size=1407, n_routed_experts=64, n_shared_experts=2)
    config.expect(scoring_func="softmax", norm_topk_prob=False, mlp_bias=False)
    router: dict[str, Any] = {"normalised": False, "scale": config.number("routed_scaling_factor", 1.0)}
    if config.text("topk_method", "greedy") != "greedy":
        config.expect(topk_method="group_limited_greedy")
        router |= {"num_groups": config.integer("n_group"), "top_groups": config.integer("topk_group")}
    stack = latent_stack(config, interleaved=True)
    return _causal.model(config, task, mixed(config, stack, 0, **router), tied=False)


def latent_stack(config: Config, *, interleaved: bool = False, apart: bool = False) -> TextStackSpec:
    """LLaMA's stack with latent attention.

    RoPE is `interleaved`, or de-interleaved first (`apart`).
    """
    config = config.with_defaults(q_lora_rank=1536)
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    size, rank = config.integer("qk_rope_head_dim", 64), config.integer("kv_lora_rank", 512)
    config.expect(num_key_value_heads=heads)
    plain = llama.stack_spec(config.replaced(head_dim=size, num_key_value_heads=heads))
    turns, content = plain.blocks[0].dense.rotary, config.integer("qk_nope_head_dim", 128)
    assert turns is not None
    attention = LatentAttentionSpec(
        width,
        heads,
        content,
        config.integer("v_head_dim", 128),
        rank,
        replace(turns, interleaved=interleaved),
        NormSpec(rank, 1e-6, NormKind.RMS),  # whatever rms_norm_eps is
        latent_scale(config, content + size),
        None if config.values["q_lora_rank"] is None else config.integer("q_lora_rank"),
        config.flag("attention_bias", False),
        apart,
    )
    return _causal.each_layer(plain, lambda _, block: replace(block, attention=attention))


def mixed(config: Config, stack: TextStackSpec, dense: int, **router: Any) -> TextStackSpec:
    """`stack` with routed and shared experts in all layers but the first, of which `dense` by default."""
    config.expect(moe_layer_freq=1)
    first, width = config.integer("first_k_dense_replace", dense), config.integer("moe_intermediate_size")
    num_experts, top_k = config.count("n_routed_experts"), config.integer("num_experts_per_tok")
    together = config.integer("n_shared_experts") * width

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        plain = block.feed_forward
        if layer < first:
            return block
        assert isinstance(plain, FeedForwardSpec)
        expert, shared = (replace(plain, intermediate_size=size) for size in (width, together))
        mixture = ExpertsSpec(expert, num_experts, top_k, shared=shared, shared_gated=False, **router)
        return replace(block, feed_forward=mixture)

    return _causal.each_layer(stack, varied)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As that of experts, with the tensors of latent attention for keys and values."""
    inherited, kinds = experts_table(spec), (block.attention for block in spec.stack.blocks)
    kind = next(one for one in kinds if isinstance(one, LatentAttentionSpec))
    layer, source = f"{_causal.stack_name(spec)}.layers.{{i}}.attention", "layers.{i}.self_attn"
    content, value = kind.qk_nope_head_dim, kind.v_head_dim
    # Of every head, first the rows for keys, then those for values.
    up = Take(f"{source}.kv_b_proj.*", parts=content + value, groups=kind.num_heads)
    rules: Rules = {
        f"{layer}.q_down.*": f"{source}.q_a_proj.*",
        f"{layer}.q_norm.*": f"{source}.q_a_layernorm.*",
        f"{layer}.q.*": f"{source}.{'q_proj' if kind.q_lora_rank is None else 'q_b_proj'}.*",
        f"{layer}.kv_down.*": f"{source}.kv_a_proj_with_mqa.*",
        f"{layer}.kv_norm.*": f"{source}.kv_a_layernorm.*",
        f"{layer}.k_up.*": replace(up, width=content),
        f"{layer}.v_up.*": replace(up, part=content, width=value),
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)


def experts_table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Qwen3-MoE's, with shared experts; the multi-token prediction layer after the last one is ignored."""
    inherited, layer = qwen3_moe.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.feed_forward"
    rules: Rules = {
        f"{layer}.shared.{name}.*": f"layers.{{i}}.mlp.shared_experts.{name}_proj.*"
        for name in ("gate", "up", "down")
    }
    rules[f"{layer}.router.correction"] = "layers.{i}.mlp.gate.e_score_correction_bias"
    drop = (*inherited.drop, f"layers.{spec.stack.num_layers}.*")
    return Table(inherited.rules | rules, NAMING, drop)
