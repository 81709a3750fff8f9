"""dots.llm1 (rednote 2025): Qwen3's attention and the experts of DeepSeek-V3."""

from txexport.families import _causal, deepseek_v2, deepseek_v3, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Dots1ForCausalLM",), "feature-extraction": ("Dots1Model",)}

NAMING = llama.NAMING
ALIASES = {"num_local_experts": "n_routed_experts"}
PUBLISHED_WITH_CODE = True
table = deepseek_v2.experts_table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; without layer_types, layers from max_window_layers on have
    the sliding window.
    """
    bias, first = config.flag("attention_bias", False), config.integer("max_window_layers", 62)
    has_window = config.values.get("sliding_window", 4096) is not None
    window = config.integer("sliding_window", 4096) if has_window else None
    local = config.local_layers(lambda layer: layer >= first)
    stack = llama.stack_spec(
        config,
        bias=bias,
        output_bias=bias,
        head_norm=True,
        windows=[window if one else None for one in local],
    )
    config = config.with_defaults(norm_topk_prob=False)
    router = deepseek_v3.corrected(config, num_groups=1, top_groups=1, scale=1.0)
    return _causal.model(config, task, deepseek_v2.mixed(config, stack, 0, **router), tied=False)
