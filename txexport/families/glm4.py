"""GLM-4-0414 (GLM Team 2025): GLM-4 with sandwich norm."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, glm
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement

TASKS = _causal.tasks("Glm4", spans=False)

NAMING = glm.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, placement=NormPlacement.SANDWICH)

    return _causal.model(config, task, _causal.each_layer(glm.stack_spec(config), varied), tied=False)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As GLM-4's, with the norms after sublayers."""
    inherited, layer = glm.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    rules: Rules = {
        f"{layer}.attention_post_norm.*": "layers.{i}.post_self_attn_layernorm.*",
        f"{layer}.feed_forward_post_norm.*": "layers.{i}.post_mlp_layernorm.*",
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
