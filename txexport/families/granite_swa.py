"""Granite Swash (IBM 2026): Granite with attention sinks, and sliding windows in most layers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _causal, granite, llama
from txexport.families._config import Config, TensorNames
from txexport.families._rope import rotary
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, NormPlacement, RotarySpec, TextStackSpec

TASKS = {"text-generation": ("GraniteSWAForCausalLM",), "feature-extraction": ("GraniteSWAModel",)}

NAMING = llama.NAMING
WITHOUT_OUTPUTS = {"attentions": "the original returns weights of attention without the sinks"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(num_key_value_heads=4, rms_norm_eps=1e-5, max_position_embeddings=8192)
    scale = config.number("attention_multiplier", 1.0)
    stack = with_windows(config, granite.stack_spec(config, scale, NormPlacement.PRE))
    return _causal.model(config, task, stack, tied=True, scale=1 / config.number("logits_scaling", 1.0))


def with_windows(config: Config, stack: TextStackSpec) -> TextStackSpec:
    """`stack` with a sink of each head, windows by layer_types, and RoPE by layer_rope_theta.

    Without layer_types, every fourth layer from the first has no window.
    """
    local = config.local_layers(lambda layer: bool(layer % 4))
    window = config.integer("sliding_window", 128)
    shorter = stack.limit is None or window < stack.limit
    turns = _turns(config, stack)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        width = window if local[layer] and shorter else None
        attention = replace(block.dense, sinks=True, window=width, rotary=turns[layer])
        return replace(block, attention=attention)

    return _causal.each_layer(stack, varied)


def _turns(config: Config, stack: TextStackSpec) -> list[RotarySpec | None]:
    """RoPE of each layer; a base of 0 is none.

    Raises UnsupportedError unless there is one for each layer.
    """
    attention = stack.blocks[0].dense
    if config.values.get("layer_rope_theta") is None:
        return [attention.rotary] * stack.num_layers
    bases = config.numbers("layer_rope_theta")
    if len(bases) != stack.num_layers:
        raise UnsupportedError(
            f"{config.path}: 'layer_rope_theta' has {len(bases)} numbers, expected one for each of "
            f"{stack.num_layers} layers"
        )
    table = dict(config.table("rope_parameters").values)
    turned = {
        base: rotary(
            config.replaced(rope_theta=base, rope_parameters=table | {"rope_theta": base} if table else None),
            attention.head_dim,
            long=True,
        )
        for base in set(bases)
        if base
    }
    return [turned.get(base) for base in bases]


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with sinks."""
    inherited = llama.table(spec)
    return Table(inherited.rules | sinks(spec), NAMING, inherited.drop)


def sinks(spec: EncoderSpec | DecoderSpec) -> Rules:
    """Tensor names of the sinks."""
    return {f"{_causal.stack_name(spec)}.layers.{{i}}.attention.sinks": "layers.{i}.self_attn.sinks"}
