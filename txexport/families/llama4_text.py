"""Llama 4, the text model (Meta 2025): attention in chunks, layers without positions, weighted experts."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.families.gemma4_text import ones
from txexport.spec import (
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    QueryGrowthSpec,
    RotarySpec,
)

TASKS = {"text-generation": ("Llama4ForCausalLM",), "feature-extraction": ("Llama4TextModel",)}

NAMING = llama.NAMING
CHUNKED, FULL = "chunked_attention", "full_attention"
DEFAULTS = {
    **{"num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "rope_theta": 500_000.0},
    **{"max_position_embeddings": 131_072, "intermediate_size": 8192, "attention_chunk_size": 8192},
}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes.

    Layers that turn have norms of heads behind RoPE, the others queries that grow with their positions.
    """
    config = config.with_defaults(**DEFAULTS)
    count = config.count("num_hidden_layers")
    turns, chunks = _turning(config, count), config.values["attention_chunk_size"] is not None
    kinds = config.layer_types(CHUNKED, FULL) or [CHUNKED if one and chunks else FULL for one in turns]
    size = config.integer("attention_chunk_size") if CHUNKED in kinds else None
    bias, normed = config.flag("attention_bias", False), config.flag("use_qk_norm", True)
    windows = [size if kind == CHUNKED else None for kind in kinds]
    stack = llama.stack_spec(config, bias=bias, output_bias=bias, head_norm=True, windows=windows)
    still, mixed = _still(config), _mixed(config, count)
    dense = config.integer("intermediate_size_mlp", 16384)
    experts, top_k = (
        (config.count("num_local_experts", 16), config.integer("num_experts_per_tok", 1))
        if any(mixed)
        else (1, 1)  # of no layer, as in Llama Guard 4
    )

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        attention, network = block.dense, block.feed_forward
        assert isinstance(network, FeedForwardSpec)
        assert attention.rotary is not None
        has_norm = turns[layer] and normed
        attention = replace(
            attention,
            rotary=replace(attention.rotary, interleaved=True) if turns[layer] else still,
            head_norm=attention.head_norm if has_norm else None,
            rotated_norm=has_norm,
            chunked=attention.window is not None,
        )
        mixture = ExpertsSpec(
            network,
            experts,
            top_k,
            normalised=False,
            shared=network,
            shared_gated=False,
            sigmoid=True,
            weighted_inputs=True,
        )
        plain = replace(network, intermediate_size=dense)
        return replace(block, attention=attention, feed_forward=mixture if mixed[layer] else plain)

    return _causal.model(config, task, _causal.each_layer(stack, varied), tied=False)


def _turning(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has RoPE: by no_rope_layers (1 means so), else all but every 4th."""
    flags = config.values.get("no_rope_layers")
    if not flags:
        every = _from_one(config, "no_rope_layer_interval", 4)
        return [bool((layer + 1) % every) for layer in range(count)]
    if not isinstance(flags, list) or len(flags) < count or any(flag not in (0, 1) for flag in flags):
        raise UnsupportedError(
            f"{config.path}: 'no_rope_layers' is {flags}, expected 0 or 1 for {count} layers"
        )
    return [bool(flag) for flag in flags[:count]]


def _from_one(config: Config, key: str, default: int) -> int:
    value = config.integer(key, default)
    if value < 1:
        raise UnsupportedError(f"{config.path}: '{key}' is {value}, expected a number from 1")
    return value


def _mixed(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has experts: by moe_layers, else every interleave_moe_layer_step-th."""
    numbers = config.values.get("moe_layers")
    if numbers is None:
        step = _from_one(config, "interleave_moe_layer_step", 1)
        return [(layer + 1) % step == 0 for layer in range(count)]
    if not isinstance(numbers, list) or any(number not in range(count) for number in numbers):
        raise UnsupportedError(
            f"{config.path}: 'moe_layers' is {numbers}, expected numbers from 0 of {count} layers"
        )
    return [layer in numbers for layer in range(count)]


def _still(config: Config) -> RotarySpec | None:
    """RoPE of layers without positions: one pair that does not turn, for the growth of queries, if any."""
    rate = config.number("attn_scale", 0.1)
    if rate == 0 or not config.flag("attn_temperature_tuning", True):
        return None
    growth = QueryGrowthSpec(rate, config.integer("floor_scale", 8192), ahead=1)
    return RotarySpec((0.0,), growth=growth)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with norms without weights, and experts (experts,in,out)."""
    inherited, layer = llama.table(spec), f"{_causal.stack_name(spec)}.layers.{{i}}"
    network, source = f"{layer}.feed_forward", "layers.{i}.feed_forward"
    rules: Rules = {
        **{f"{layer}.attention.{name}.*": Take("", computed=ones) for name in ("q_norm", "k_norm")},
        f"{network}.router.*": f"{source}.router.*",
    }
    for name in ("gate", "up", "down"):
        rules[f"{network}.{name}.*"] = f"{source}.{name}_proj.*"
        rules[f"{network}.shared.{name}.*"] = f"{source}.shared_expert.{name}_proj.*"
    mixtures = (block.feed_forward for block in spec.stack.blocks)
    count = next((one.num_experts for one in mixtures if isinstance(one, ExpertsSpec)), 0)
    for number in range(count):
        down = Take(f"{source}.experts.down_proj", transpose=True, expert=number, experts=count)
        both = replace(down, source=f"{source}.experts.gate_up_proj", parts=2)
        parts = {"gate": both, "up": replace(both, part=1), "down": down}
        rules |= {f"{network}.experts.{number}.{name}.weight": take for name, take in parts.items()}
    return Table(inherited.rules | rules, NAMING, inherited.drop)
