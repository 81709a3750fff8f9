"""OLMo 3 (OLMo Team 2025): OLMo 2 with most layers in a sliding window, whose RoPE is never scaled."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from txexport.families import _causal, olmo2
from txexport.families._config import Config, TensorNames
from txexport.families._rope import rotary
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, RotarySpec

TASKS = _causal.tasks("Olmo3", tokens=False, spans=False)

DEFAULT_THETA = 5e5

NAMING = olmo2.NAMING
table = olmo2.table


def _local(config: Config) -> list[bool]:
    """For each layer, tell whether it has a sliding window."""
    return config.local_layers(lambda layer: bool((layer + 1) % 4))


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    window = config.integer("sliding_window", 4096)
    local = _local(config)
    plain = config.replaced(rope_parameters=None, rope_scaling=None)
    stack = olmo2.stack_spec(plain, [window if windowed else None for windowed in local])
    head_dim = stack.blocks[0].dense.head_dim
    turns = {windowed: _rotary(config, windowed, head_dim) for windowed in set(local)}

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, rotary=turns[local[layer]]))

    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str] | None:
    """config.json with rope parameters for each layer type, and the meaning of one theta for both.

    transformers 4 wrote one `rope_theta` and used it for layers with and without a window. transformers 5
    uses it for the latter, and 500000 for the former. None where that makes no difference.
    """
    theta, tables = config.number("rope_theta", DEFAULT_THETA), config.table("rope_parameters").values
    windowed = tables.get("sliding_attention") or {}
    if theta == DEFAULT_THETA or "rope_theta" in windowed or not any(_local(config)):
        return None
    sliding = {"rope_type": "default"} | dict(windowed) | {"rope_theta": theta}
    full = {"rope_type": "default"} | dict(tables.get("full_attention") or {})  # includes rope_scaling
    both = {**tables, "sliding_attention": sliding, "full_attention": full}
    values = dict(config.values) | {"rope_parameters": both}
    note = (
        f"rope_theta {theta:g} is taken for layers with a window too, as in transformers 4, whose spelling "
        f"config.json has; transformers 5 gives them {DEFAULT_THETA:g}. It is held against transformers with "
        "a theta for each kind of layers"
    )
    return values, note


def _rotary(config: Config, windowed: bool, head_dim: int) -> RotarySpec:
    """RoPE of a layer type; newer files have a table for each, older ones a theta and a scaling."""
    kind = "sliding_attention" if windowed else "full_attention"
    table = config.table("rope_parameters").table(kind)
    table.expect(truncate=True)  # the original ignores it in a table per layer type
    values = dict(table.values)
    if not windowed:
        values |= config.table("rope_scaling").values
    parameters = {"rope_theta": config.number("rope_theta", DEFAULT_THETA)} | {
        k: v for k, v in values.items() if v is not None
    }
    return rotary(config.replaced(rope_parameters=parameters, rope_scaling=None), head_dim)
