"""MiniCPM3 (OpenBMB 2024): latent attention, with multipliers of embeddings, residuals and logits."""

from dataclasses import replace

from txexport.families import _causal, deepseek_v2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec

TASKS = {
    "text-generation": ("MiniCPM3ForCausalLM",),
    "text-classification": ("MiniCPM3ForSequenceClassification",),
    "feature-extraction": ("MiniCPM3Model",),
}

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True
table = deepseek_v2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; a null multiplier changes nothing, a null v_head_dim
    divides the width evenly.
    """
    config.expect(mlp_bias=False)
    config = config.with_defaults(
        **{"kv_lora_rank": 256, "q_lora_rank": 768, "qk_nope_head_dim": 64, "qk_rope_head_dim": 32},
        **{"rms_norm_eps": 1e-5, "scale_depth": 1.4, "dim_model_base": 256},
    )
    width, layers = config.integer("hidden_size"), config.count("num_hidden_layers")
    heads = config.integer("num_attention_heads")
    if config.values.get("v_head_dim") is None:
        config = config.replaced(v_head_dim=config.head_dim(width, heads))
    stack = deepseek_v2.latent_stack(config)
    depth = layers**-0.5 * config.number("scale_depth", layers**0.5)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, residual_scale=depth)

    embedding = replace(stack.embedding, scale=config.number("scale_emb", 12))
    stack = replace(_causal.each_layer(stack, varied), embedding=embedding)
    return _causal.model(
        config, task, stack, tied=True, scale=config.integer("dim_model_base", width) / width
    )
