"""Helium (Kyutai 2025): LLaMA with interleaved RoPE."""

from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Helium", spans=False)

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; the output projection is square and has no bias."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    config = config.with_defaults(head_dim=128, num_key_value_heads=20, rms_norm_eps=1e-8, rope_theta=1e5)
    config.expect(head_dim=config.replaced(head_dim=None).head_dim(width, heads))
    bias, feed_forward_bias = config.flag("attention_bias", False), config.flag("mlp_bias", False)
    stack = llama.stack_spec(config, bias=bias, output_bias=False, feed_forward_bias=feed_forward_bias)
    return _causal.model(config, task, _causal.interleaved(stack), tied=False)
