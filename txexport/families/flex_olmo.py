"""FlexOlmo (Shi et al. 2025): OLMo 2 with OLMoE's experts."""

from txexport.checkpoints.weight_map import Table
from txexport.families import _causal, llama, olmo2, qwen3_moe
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("FlexOlmoForCausalLM",), "feature-extraction": ("FlexOlmoModel",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "num_experts"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(
        num_experts=7, num_experts_per_tok=5, rms_norm_eps=1e-6, rope_theta=5e5
    ).replaced(
        moe_intermediate_size=config.integer("intermediate_size"), decoder_sparse_step=1, mlp_only_layers=None
    )
    stack = qwen3_moe.mixed(config, olmo2.stack_spec(config, [None]))
    return _causal.model(config, task, stack, tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As OLMo 2's, with experts."""
    inherited, experts = olmo2.table(spec), qwen3_moe.table(spec)
    return Table(experts.rules | inherited.rules, NAMING, inherited.drop)
