"""Code World Model (Meta 2025): LLaMA with sliding windows in all layers but every fourth."""

from txexport.families import llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("CwmForCausalLM",), "feature-extraction": ("CwmModel",)}

NAMING = llama.NAMING
ROPE = {
    "rope_type": "llama3",
    "rope_theta": 1e6,
    "factor": 16.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "original_max_position_embeddings": 8192,
}
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(num_key_value_heads=8, head_dim=128, rms_norm_eps=1e-5, rope_theta=1e6)
    config.expect(attention_bias=False, mlp_bias=False)
    if not config.values.get("rope_parameters") and not config.values.get("rope_scaling"):
        config = config.replaced(rope_parameters=ROPE)
    window = config.integer("sliding_window", 8192)
    local = config.local_layers(lambda layer: layer % 4 != 0)
    return llama.decoder_spec(config, task, windows=[window if one else None for one in local])
