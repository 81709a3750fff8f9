"""OLMoE (Muennighoff et al. 2024): LLaMA with experts, and QK-norm over the full projection."""

from dataclasses import replace

from txexport.families import _causal, llama, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("OlmoeForCausalLM",), "feature-extraction": ("OlmoeModel",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "num_experts"}
table = qwen3_moe.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; QK-norm does not support a separate head_dim."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config.expect(head_dim=config.head_dim(width, heads))
    config = config.with_defaults(rms_norm_eps=1e-5, num_experts=64, num_experts_per_tok=8)
    config = config.replaced(moe_intermediate_size=config.integer("intermediate_size"))
    config = config.replaced(decoder_sparse_step=1, mlp_only_layers=None)
    clip = None if config.values.get("clip_qkv") is None else config.number("clip_qkv")
    bias = config.flag("attention_bias", False)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, joint_norm=True, clip=clip))

    stack = llama.stack_spec(config, bias=bias, output_bias=bias, head_norm=True)
    stack = qwen3_moe.mixed(config, _causal.each_layer(stack, varied))
    return _causal.model(config, task, stack, tied=False)
