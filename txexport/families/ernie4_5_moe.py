"""ERNIE 4.5 MoE (Baidu 2025): ERNIE 4.5 with experts picked by corrected softmax scores."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, deepseek_v2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, ExpertsSpec, FeedForwardSpec

TASKS = {"text-generation": ("Ernie4_5_MoeForCausalLM",), "feature-extraction": ("Ernie4_5_MoeModel",)}

NAMING = llama.NAMING
ALIASES = {"num_experts": "moe_num_experts", "num_experts_per_tok": "moe_k"}
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; experts have no biases."""
    config = config.with_defaults(num_key_value_heads=4, rms_norm_eps=1e-5, rope_theta=5e5)
    bias, layers = config.flag("use_bias", False), config.count("num_hidden_layers")
    count, top_k = config.count("moe_num_experts", 64), config.integer("moe_k", 6)
    width, shared = config.integer("moe_intermediate_size", 1536), config.count("moe_num_shared_experts", 2)
    first, last = config.count("moe_layer_start_index", 1), config.values.get("moe_layer_end_index", -1)
    last = layers - 1 if last == -1 else config.count("moe_layer_end_index")
    step = config.integer("moe_layer_interval", 1)
    config.expect(moe_norm_min=1e-12)  # below every sum of shares

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        plain = block.feed_forward
        if (layer + 1) % step or not first <= layer <= last:
            return block
        assert isinstance(plain, FeedForwardSpec)
        beside = replace(plain, intermediate_size=shared * width) if shared else None
        mixture = ExpertsSpec(
            replace(plain, intermediate_size=width, bias=False),
            count,
            top_k,
            shared=beside,
            shared_gated=False,
            corrected=True,
            softmax_scores=True,
        )
        return replace(block, feed_forward=mixture)

    stack = llama.stack_spec(config, bias=bias, output_bias=bias, feed_forward_bias=bias)
    stack = _causal.interleaved(_causal.each_layer(stack, varied))
    return _causal.model(config, task, stack, tied=True, bias=bias)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As DeepSeek-V2's, with another name of the correction; published files have it beside the router."""
    inherited, stack = deepseek_v2.experts_table(spec), _causal.stack_name(spec)
    name = "moe_statics.e_score_correction_bias"
    rules: Rules = {
        f"{stack}.layers.{{i}}.feed_forward.router.correction": Take(
            f"layers.{{i}}.mlp.{name}", also=(f"layers.{{i}}.mlp.gate.{name}",), leading_axis=True
        )
    }
    return Table(inherited.rules | rules, NAMING, (*inherited.drop, "mtp_*"))
