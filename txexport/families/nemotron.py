"""Nemotron and Minitron (Parmar et al. 2024): squared ReLU, RoPE on half a head, norms stored minus 1."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, arcee, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormSpec

TASKS = _causal.tasks("Nemotron")

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(partial_rotary_factor=0.5)
    norm = NormSpec(config.integer("hidden_size"), config.number("norm_eps", 1e-5))

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, norm=norm)

    stack = arcee.stack_spec(config, fraction="partial_rotary_factor")
    stack = replace(_causal.each_layer(stack, varied), final_norm=norm)
    return _causal.model(config, task, stack, tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with 1 added to the weights of norms, not to their biases."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{name}.weight": Take(f"{source}.weight", plus=1.0)
        for name, source in (
            (f"{layer}.attention_norm", "layers.{i}.input_layernorm"),
            (f"{layer}.feed_forward_norm", "layers.{i}.post_attention_layernorm"),
            (f"{stack}.final_norm", "norm"),
        )
    }
    return Table(rules | inherited.rules, NAMING, inherited.drop)
