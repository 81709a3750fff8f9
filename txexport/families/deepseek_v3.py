"""DeepSeek-V3 and R1 (DeepSeek-AI 2025): DeepSeek-V2 with sigmoid routing and e_score_correction_bias."""

from typing import Any

from txexport.families import _causal, deepseek_v2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("DeepseekV3", spans=False)

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "n_routed_experts", "num_mtp_layers": "num_nextn_predict_layers"}
PUBLISHED_WITH_CODE = True
table = deepseek_v2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        moe_intermediate_size=2048, n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8
    )
    config.expect(head_dim=config.integer("qk_rope_head_dim", 64))
    apart = config.flag("rope_interleave", True)
    router = corrected(config, num_groups=8, top_groups=4, scale=2.5)
    stack = deepseek_v2.mixed(config, deepseek_v2.latent_stack(config, apart=apart), 3, **router)
    return _causal.model(config, task, stack, tied=False)


def corrected(config: Config, *, num_groups: int, top_groups: int, scale: float) -> dict[str, Any]:
    """The router, with this family's defaults."""
    config.expect(scoring_func="sigmoid", topk_method="noaux_tc")
    return {
        "corrected": True,
        "normalised": config.flag("norm_topk_prob", True),
        "num_groups": config.integer("n_group", num_groups),
        "top_groups": config.integer("topk_group", top_groups),
        "scale": config.number("routed_scaling_factor", scale),
    }
