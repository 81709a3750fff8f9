"""InternLM3 (Shanghai AI Laboratory 2025): LLaMA by other names, with one flag for all biases."""

from txexport.families import llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {
    "text-generation": ("LlamaForCausalLM", "InternLM3ForCausalLM"),
    "feature-extraction": ("LlamaModel",),
}

NAMING = llama.NAMING
ALIASES = {"qkv_bias": "attention_bias", "bias": "mlp_bias"}
PUBLISHED_WITH_CODE = True
ORIGINAL_OF = "llama"
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; transformers refuses biases in one sublayer alone."""
    config = config.with_defaults(num_key_value_heads=2, head_dim=128, rms_norm_eps=1e-5)
    config.expect(mlp_bias=config.flag("attention_bias", False))
    return llama.spec(config, task, names)
