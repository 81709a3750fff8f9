"""GLM-4.7-Flash (Z.ai 2026): DeepSeek-V3's latent attention and experts."""

from txexport.families import _causal, deepseek_v2, deepseek_v3, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Glm4MoeLiteForCausalLM",), "feature-extraction": ("Glm4MoeLiteModel",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "n_routed_experts", "head_dim": "qk_rope_head_dim"}
table = deepseek_v2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; the first layers are dense by mlp_layer_types."""
    config = config.with_defaults(
        q_lora_rank=768,
        rms_norm_eps=1e-5,
        qk_nope_head_dim=192,
        v_head_dim=256,
        moe_intermediate_size=1536,
        n_routed_experts=64,
        n_shared_experts=1,
        num_experts_per_tok=4,
    )
    kinds, layers = config.strings("mlp_layer_types"), config.count("num_hidden_layers")
    first = kinds.index("sparse") if "sparse" in kinds else len(kinds) or 1
    config.expect(mlp_layer_types=["dense"] * first + ["sparse"] * (layers - first))
    config = config.replaced(first_k_dense_replace=first)
    stack = deepseek_v2.latent_stack(config, apart=config.flag("rope_interleave", True))
    router = deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=1.8)
    return _causal.model(config, task, deepseek_v2.mixed(config, stack, 1, **router), tied=False)
