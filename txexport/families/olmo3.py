"""OLMo 3 (OLMo Team 2025): OLMo 2 with most layers in a window, whose positions no scaling stretches."""

from dataclasses import replace

from txexport.families import _causal, olmo2
from txexport.families._config import Config, TensorNames
from txexport.families._rope import rotary
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, RotarySpec

TASKS = _causal.tasks("Olmo3", tokens=False, spans=False)

NAMING = olmo2.NAMING
table = olmo2.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    window = config.integer("sliding_window", 4096)
    local = config.local_layers(lambda layer: bool((layer + 1) % 4))
    plain = config.replaced(rope_parameters=None, rope_scaling=None)
    stack = olmo2.stack_spec(plain, [window if windowed else None for windowed in local])
    head_dim = stack.blocks[0].dense.head_dim
    turns = {windowed: _rotary(config, windowed, head_dim) for windowed in set(local)}

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, rotary=turns[local[layer]]))

    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def _rotary(config: Config, windowed: bool, head_dim: int) -> RotarySpec:
    """Rotation of a kind of layers; newer files have a table for each, older ones a theta and a scaling."""
    kind = "sliding_attention" if windowed else "full_attention"
    table = config.table("rope_parameters").table(kind)
    table.expect(truncate=True)  # which the original reads in no table of a kind
    values = dict(table.values)
    if not windowed:
        values |= config.table("rope_scaling").values
    own = {"rope_theta": config.number("rope_theta", 5e5)} | {
        k: v for k, v in values.items() if v is not None
    }
    return rotary(config.replaced(rope_parameters=own, rope_scaling=None), head_dim)
