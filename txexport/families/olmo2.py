"""OLMo 2 (OLMo Team 2024): LLaMA with post-sublayer norm, and QK-norm over the full projection."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, TextStackSpec

TASKS = _causal.tasks("Olmo2", tokens=False, spans=False)

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return _causal.model(config, task, stack_spec(config, [None]), tied=False)


def stack_spec(config: Config, windows: list[int | None]) -> TextStackSpec:
    """The stack; `windows` are the sliding windows of the layers."""
    bias = config.flag("attention_bias", False)
    config = config.with_defaults(rms_norm_eps=1e-5)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        attention = replace(block.dense, joint_norm=True)
        return replace(block, attention=attention, placement=NormPlacement.RES_POST)

    stack = llama.stack_spec(config, bias=bias, output_bias=bias, head_norm=True, windows=windows)
    return _causal.each_layer(stack, varied)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with other names of the norms."""
    inherited, layer = llama.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {
        f"{layer}.attention_norm.*": "layers.{i}.post_attention_layernorm.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.post_feedforward_layernorm.*",
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
