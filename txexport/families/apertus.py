"""Apertus (Swiss AI 2025): LLaMA with QK-norm and a plain feed-forward network with xIELU."""

from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.families.ministral3 import with_rope
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, FeedForwardSpec, XieluFeedForwardSpec

TASKS = {
    "text-generation": ("ApertusForCausalLM",),
    "token-classification": ("ApertusForTokenClassification",),
    "feature-extraction": ("ApertusModel",),
}

NAMING = llama.NAMING
ROPE: dict[str, Any] = {
    "rope_type": "llama3",
    "rope_theta": 1.2e7,
    "factor": 8.0,
    "original_max_position_embeddings": 8192,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
}
# Numbers of the activation that are not learned, and how far bfloat16 rounds them.
FIXED = {"act_fn.beta": (0.5, 0.0), "act_fn.eps": (-1e-6, 1e-8)}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config.expect(hidden_act="xielu", qk_norm=True, post_norm=False, mlp_bias=False)
    _check_activation(config, names)
    config = with_rope(config.with_defaults(rms_norm_eps=1e-5, rope_theta=1.2e7), ROPE)
    bias = config.flag("attention_bias", False)
    stack = llama.stack_spec(config.replaced(hidden_act="silu"), bias=bias, output_bias=bias, head_norm=True)

    def varied(_: int, block: BlockSpec) -> BlockSpec:
        network = block.feed_forward
        assert isinstance(network, FeedForwardSpec)
        sizes = network.hidden_size, network.intermediate_size
        return replace(block, feed_forward=XieluFeedForwardSpec(*sizes))

    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def _check_activation(config: Config, names: TensorNames) -> None:
    """Raise UnsupportedError for other numbers in the activation than all checkpoints have."""
    for name in names:
        for ending, (usual, error) in FIXED.items():
            if name.endswith(ending) and not abs(float(names.read(name).item()) - usual) <= error:
                raise UnsupportedError(
                    f"{config.path}: {name} is {names.read(name).item()}, expected {usual}"
                )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with other names of norms, and the learned numbers of the activation."""
    inherited, layer = llama.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {
        f"{layer}.attention_norm.*": "layers.{i}.attention_layernorm.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.feedforward_layernorm.*",
        f"{layer}.feed_forward.act.alpha_p": "layers.{i}.mlp.act_fn.alpha_p",
        f"{layer}.feed_forward.act.alpha_n": "layers.{i}.mlp.act_fn.alpha_n",
    }
    checked = (f"layers.*.mlp.{name}" for name in FIXED)
    return Table(inherited.rules | rules, NAMING, (*inherited.drop, *checked))
