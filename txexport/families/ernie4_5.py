"""ERNIE 4.5 dense (Baidu 2025): LLaMA with interleaved RoPE."""

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Ernie4_5ForCausalLM",), "feature-extraction": ("Ernie4_5Model",)}

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(head_dim=128, num_key_value_heads=2, rms_norm_eps=1e-5, rope_theta=5e5)
    bias = config.flag("use_bias", False)
    stack = llama.stack_spec(config, bias=bias, output_bias=bias, feed_forward_bias=bias)
    return _causal.model(config, task, _causal.interleaved(stack), tied=True)
