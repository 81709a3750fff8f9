"""Jais 2 (Inception 2025): LLaMA with layer norm, biases, and squared ReLU instead of a gated network."""

from dataclasses import replace

from txexport.families import _causal, arcee, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, NormSpec

TASKS = {"text-generation": ("Jais2ForCausalLM",), "feature-extraction": ("Jais2Model",)}

NAMING = llama.NAMING
table = llama.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    norm = NormSpec(config.integer("hidden_size"), config.number("layer_norm_eps", 1e-5))
    stack = arcee.stack_spec(config.with_defaults(attention_bias=True, mlp_bias=True))
    stack = _causal.each_layer(stack, lambda _, block: replace(block, norm=norm))
    return _causal.model(config, task, replace(stack, final_norm=norm), tied=False)
