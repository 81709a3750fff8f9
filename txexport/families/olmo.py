"""OLMo (Groeneveld et al. 2024): LLaMA with non-parametric layer norm."""

from dataclasses import replace

import numpy as np

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormSpec

TASKS = _causal.tasks("Olmo", tokens=False, spans=False)

NAMING = llama.NAMING
EPS = 1e-5  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    clip = None if config.values.get("clip_qkv") is None else config.number("clip_qkv")
    norm, bias = (
        NormSpec(config.integer("hidden_size"), EPS, bias=False),
        config.flag("attention_bias", False),
    )

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, clip=clip), norm=norm)

    stack = llama.stack_spec(config, bias=bias, output_bias=bias)
    stack = replace(_causal.each_layer(stack, varied), final_norm=norm)
    return _causal.model(config, task, stack, tied=False)


def _ones(shape: tuple[int, ...]) -> np.ndarray:
    return np.ones(shape, np.float32)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's; the weights of norms, which are 1, are not stored."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    names = [f"{stack}.layers.{{i}}.{norm}" for norm in ("attention_norm", "feed_forward_norm")]
    rules: Rules = {f"{name}.*": Take("", computed=_ones) for name in (*names, f"{stack}.final_norm")}
    return Table(inherited.rules | rules, NAMING, inherited.drop)
