"""Gemma (Gemma Team 2024): LLaMA with scaled word embeddings and RMSNorm weights stored minus 1."""

import math
from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, TextStackSpec

TASKS = _causal.tasks("Gemma", spans=False)

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; in its first files "gelu" means gelu_pytorch_tanh."""
    config.expect(use_bidirectional_attention=False)
    config = config.with_defaults(head_dim=256, num_key_value_heads=16)
    activation = config.text("hidden_act", "gelu_pytorch_tanh")
    config = config.replaced(hidden_act="gelu_pytorch_tanh" if activation == "gelu" else activation)
    bias = config.flag("attention_bias", False)
    stack = scaled_words(llama.stack_spec(config, bias=bias, output_bias=bias))
    return _causal.model(config, task, stack, tied=True)


def scaled_words(stack: TextStackSpec) -> TextStackSpec:
    """`stack` with word embeddings multiplied by the square root of its width."""
    return replace(stack, embedding=replace(stack.embedding, scale=math.sqrt(stack.hidden_size)))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with 1 added to the scales of norms."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer, source = f"{stack}.layers.{{i}}", "layers.{i}"
    rules: Rules = {
        f"{layer}.attention_norm.*": Take(f"{source}.input_layernorm.*", plus=1.0),
        f"{layer}.feed_forward_norm.*": Take(f"{source}.post_attention_layernorm.*", plus=1.0),
        f"{stack}.final_norm.*": Take("norm.*", plus=1.0),
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
