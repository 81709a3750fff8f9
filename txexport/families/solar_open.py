"""Solar Open (Upstage 2025): LLaMA with the experts of GLM-4.5 in every layer."""

from txexport.families import _causal, deepseek_v2, deepseek_v3, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("SolarOpenForCausalLM",), "feature-extraction": ("SolarOpenModel",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "n_routed_experts"}
table = deepseek_v2.experts_table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; older files state what holds for all models too."""
    config.expect(first_k_dense_replace=0, use_qk_norm=False)
    config = config.with_defaults(
        num_key_value_heads=8,
        head_dim=128,
        rms_norm_eps=1e-5,
        rope_theta=1e6,
        intermediate_size=config.integer("moe_intermediate_size", 1280),
        moe_intermediate_size=1280,
        n_routed_experts=128,
        n_shared_experts=1,
        num_experts_per_tok=8,
    )
    stack = llama.stack_spec(config, bias=config.flag("attention_bias", False))
    router = deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=1.0)
    return _causal.model(config, task, deepseek_v2.mixed(config, stack, 0, **router), tied=False)
