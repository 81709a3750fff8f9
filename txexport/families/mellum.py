"""Mellum 2 (JetBrains 2026): Qwen3-MoE with windows in some layers, and RoPE of each kind of layers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import _causal, llama, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.families._rope import of_layers
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("MellumForCausalLM",), "feature-extraction": ("MellumModel",)}

NAMING = llama.NAMING
ALIASES = qwen3_moe.ALIASES | {"num_mtp_layers": "num_nextn_predict_layers"}
WINDOWED, FULL = "sliding_attention", "full_attention"
ROPE = {
    FULL: {"rope_type": "default", "rope_theta": 500000.0},
    WINDOWED: {"rope_type": "default", "rope_theta": 10000.0},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; by default every layer attends in full, to experts."""
    config = config.with_defaults(
        num_key_value_heads=4,
        head_dim=128,
        num_local_experts=64,
        num_experts_per_tok=8,
        moe_intermediate_size=896,
        norm_topk_prob=True,
    )
    local = config.local_layers(lambda layer: False)
    dense = [layer for layer, plain in enumerate(config.dense_layers(0)) if plain]
    window = config.integer("sliding_window", 1024) if any(local) else None
    bias = config.flag("attention_bias", False)
    stack = llama.stack_spec(
        config.replaced(rope_parameters=None, rope_scaling=None),
        bias=bias,
        output_bias=bias,
        head_norm=True,
        windows=[window if windowed else None for windowed in local],
    )

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        turns = of_layers(config, WINDOWED if local[layer] else FULL, block.dense.head_dim, ROPE)
        return replace(block, attention=replace(block.dense, rotary=turns))

    settings = {"mlp_only_layers": dense, "num_experts": config.values["num_local_experts"]}
    stack = qwen3_moe.mixed(config.replaced(**settings, decoder_sparse_step=1), stack)
    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Qwen3-MoE's; `mtp` predicts further tokens."""
    inherited = qwen3_moe.table(spec)
    return Table(inherited.rules, NAMING, (*inherited.drop, "mtp.*"))
