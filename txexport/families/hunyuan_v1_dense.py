"""Hunyuan dense (Tencent 2025): LLaMA with QK-norm after RoPE, and a fixed NTK-aware base."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.families._elementary import power
from txexport.families._rope import scaling
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, TextStackSpec

TASKS = _causal.tasks("HunYuanDenseV1", tokens=False, spans=False)

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return _causal.model(config, task, stack_spec(config), tied=False)


def stack_spec(config: Config) -> TextStackSpec:
    """The stack; older files also state what holds for all of this family."""
    config.expect(use_qk_norm=True, use_cla=False)
    config = _stretched(config.with_defaults(rms_norm_eps=1e-5, pad_token_id=0))
    bias = config.flag("attention_bias", False)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, attention=replace(block.dense, rotated_norm=True))

    stack = llama.stack_spec(config, bias=bias, output_bias=bias, head_norm=True)
    return _causal.each_layer(stack, varied)


def _stretched(config: Config) -> Config:
    """With `alpha`, "dynamic" is a fixed change of the base (bloc97 2023, NTK-aware)."""
    values, kind = scaling(config)
    if kind != "dynamic" or not values.values.get("alpha"):
        return config
    size = config.integer("head_dim")
    base = values.number("rope_theta", config.number("rope_theta", 10000.0))
    base *= power(values.number("alpha"), size / (size - 2))
    grown = dict(values.values) | {"rope_type": "default", "rope_theta": base}
    return config.replaced(rope_scaling=None, rope_parameters=grown)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with other names of QK-norm."""
    inherited, layer = llama.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}.attention"
    rules: Rules = {
        f"{layer}.q_norm.*": "layers.{i}.self_attn.query_layernorm.*",
        f"{layer}.k_norm.*": "layers.{i}.self_attn.key_layernorm.*",
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
