"""GLM-4.5 (GLM Team 2025): LLaMA with RoPE on half of a head, QK-norm, and DeepSeek-V3's experts."""

from txexport.families import _causal, deepseek_v2, deepseek_v3, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Glm4MoeForCausalLM",), "feature-extraction": ("Glm4MoeModel",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "n_routed_experts", "num_mtp_layers": "num_nextn_predict_layers"}
table = deepseek_v2.experts_table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        num_key_value_heads=8,
        rms_norm_eps=1e-5,
        partial_rotary_factor=0.5,
        moe_intermediate_size=1408,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    stack = llama.stack_spec(
        config,
        bias=config.flag("attention_bias", False),
        head_norm=config.flag("use_qk_norm", False),
        fraction="partial_rotary_factor",
    )
    router = deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=1.0)
    return _causal.model(config, task, deepseek_v2.mixed(config, stack, 1, **router), tied=False)
