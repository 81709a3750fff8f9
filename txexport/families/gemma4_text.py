"""Gemma 4, the text model (Gemma Team 2026): layers share keys and values, and read inputs of their own."""

import math
from dataclasses import dataclass, replace

import numpy as np

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.families._rope import of_layers
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    DenseAndExpertsSpec,
    EmbeddingSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    LayerInputSpec,
    LayerInputsSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    SharedAttentionSpec,
    TextStackSpec,
)

TASKS = {"text-generation": ("Gemma4ForCausalLM",)}

NAMING = llama.NAMING
WINDOWED, FULL = "sliding_attention", "full_attention"
# RoPE of each kind of layer where config.json has none.
ROPE = {
    WINDOWED: {"rope_type": "default", "rope_theta": 1e4},
    FULL: {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
}
OVERRIDES = ("head_dim", "num_key_value_heads")  # of single layers


@dataclass(frozen=True)
class Heads:
    """Sizes of one layer's attention."""

    head_dim: int
    num_kv_heads: int


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; with "vision", parts of images attend to each other."""
    both = config.values.get("use_bidirectional_attention")
    if both not in (None, False, "vision"):
        raise UnsupportedError(
            f"{config.path}: use_bidirectional_attention is {both!r}, expected null or 'vision'"
        )
    softcap = config.values.get("final_logit_softcapping")
    return _causal.model(
        config,
        task,
        stack_spec(config),
        tied=True,
        softcap=None if softcap is None else config.number("final_logit_softcapping"),
    )


def stack_spec(config: Config) -> TextStackSpec:
    """The decoder: windows in most layers, whose heads have other sizes than those of full layers."""
    width, size = config.integer("hidden_size", 2304), config.integer("hidden_size_per_layer_input", 256)
    norm = NormSpec(width, config.number("rms_norm_eps", 1e-6), NormKind.RMS)
    most, kinds = config.integer("max_position_embeddings", 131_072), layer_kinds(config)
    sources, heads = shared_layers(config, kinds), _heads(config, kinds)
    activation = config.activation("hidden_activation", "gelu_pytorch_tanh")
    inner, doubled = config.integer("intermediate_size", 9216), config.flag("use_double_wide_mlp", False)
    blocks = []
    for kind, source, sizes in zip(kinds, sources, heads, strict=True):
        attention = _attention(config, norm, kind, sizes, most)
        wide = inner * (2 if doubled and source is not None else 1)
        blocks.append(
            BlockSpec(
                attention if source is None else SharedAttentionSpec(attention, source),
                _network(config, FeedForwardSpec(width, wide, activation, bias=False, gated=True), norm),
                norm,
                NormPlacement.SANDWICH,
                layer_input=LayerInputSpec(width, size, activation, norm) if size else None,
                output_scale=True,
            )
        )
    vocab_size = config.integer("vocab_size", 262_144)
    embedding = EmbeddingSpec(
        vocab_size, width, PositionSpec(PositionKind.NONE, most), scale=math.sqrt(width)
    )
    inputs = None
    if size:
        rows = config.integer("vocab_size_per_layer_input", 262_144)
        if rows < vocab_size:
            raise UnsupportedError(
                f"{config.path}: vocab_size_per_layer_input is {rows}, expected vocab_size, {vocab_size}, "
                "or more"
            )
        inputs = LayerInputsSpec(rows, replace(norm, size=size))
    return TextStackSpec(embedding, minimal_cycle(blocks), len(blocks), final_norm=norm, layer_inputs=inputs)


def _network(config: Config, dense: FeedForwardSpec, norm: NormSpec) -> FeedForwardSpec | DenseAndExpertsSpec:
    """A layer's network, beside experts where there are some."""
    if not config.flag("enable_moe_block", False):
        return dense
    expert = replace(dense, intermediate_size=config.integer("moe_intermediate_size"))
    count, top_k = config.count("num_experts"), config.integer("top_k_experts")
    return DenseAndExpertsSpec(dense, ExpertsSpec(expert, count, top_k, expert_scale=True), norm)


def layer_kinds(config: Config) -> list[str]:
    """The kind of each layer: full attention in every sixth, and always in the last one."""
    kinds = config.layer_types(WINDOWED, FULL)
    count = config.count("num_hidden_layers", 30)
    kinds = kinds or [FULL if (layer + 1) % 6 == 0 else WINDOWED for layer in range(count)]
    return [*kinds[:-1], FULL]


def shared_layers(config: Config, kinds: list[str]) -> list[int | None]:
    """For each layer the one whose keys and values it reads: the last one of its kind that has some."""
    count = config.integer("num_kv_shared_layers", 0)
    first = len(kinds) - count
    last = {kind: layer for layer, kind in enumerate(kinds[:first])} if 0 < first <= len(kinds) else {}
    if set(kinds) - set(last):
        raise UnsupportedError(
            f"{config.path}: num_kv_shared_layers is {count} of {len(kinds)} layers; expected that a layer "
            "of each kind has keys and values of its own"
        )
    return [None if layer < first else last[kind] for layer, kind in enumerate(kinds)]


def _heads(config: Config, kinds: list[str]) -> list[Heads]:
    """The sizes of each layer's heads; newer files list the layers that differ, older ones give full ones."""
    plain = Heads(config.integer("head_dim", 256), config.integer("num_key_value_heads", 4))
    if config.values.get("per_layer_config") is None:
        full = replace(plain, head_dim=config.integer("global_head_dim", 512))
        counted = config.values.get("num_global_key_value_heads") is not None
        if counted and config.flag("attention_k_eq_v", False):
            full = replace(full, num_kv_heads=config.integer("num_global_key_value_heads"))
        return [full if kind == FULL else plain for kind in kinds]
    listed = config.table("per_layer_config")
    unknown = {str(name) for name in listed.values} - {str(layer) for layer in range(len(kinds))}
    result = []
    for layer in range(len(kinds)):
        values = listed.table(str(layer))
        unknown |= set(values.values) - set(OVERRIDES)
        result.append(
            Heads(
                values.integer("head_dim", plain.head_dim),
                values.integer("num_key_value_heads", plain.num_kv_heads),
            )
        )
    if unknown:
        raise UnsupportedError(
            f"{config.path}: per_layer_config has {', '.join(sorted(unknown))}; expected numbers of layers, "
            f"each with {' or '.join(OVERRIDES)}"
        )
    return result


def _attention(config: Config, norm: NormSpec, kind: str, heads: Heads, most: int) -> AttentionSpec:
    """The attention of a layer of `kind`, whose scores are not scaled."""
    bias = config.flag("attention_bias", False)
    window = config.integer("sliding_window", 512)
    return AttentionSpec(
        hidden_size=norm.size,
        num_heads=config.integer("num_attention_heads", 8),
        num_kv_heads=heads.num_kv_heads,
        head_dim=heads.head_dim,
        causal=True,
        bias=bias,
        output_bias=bias,
        scale=1.0,
        rotary=of_layers(config, kind, heads.head_dim, ROPE),
        window=window if kind == WINDOWED and window < most else None,
        head_norm=replace(norm, size=heads.head_dim),
        value_norm=True,
        keys_as_values=kind == FULL and config.flag("attention_k_eq_v", False),
    )


def ones(shape: tuple[int, ...]) -> np.ndarray:
    """The scale of a norm without weights."""
    return np.ones(shape, np.float32)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with norms after sublayers too, and inputs of layers; norms of values have no weights.

    Checkpoints may have projections of keys and values, and norms, in layers that share others, which the
    original does not read.
    """
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer, source = f"{stack}.layers.{{i}}", "layers.{i}"
    rules: Rules = {
        f"{layer}.attention.v_norm.*": Take("", computed=ones),
        f"{layer}.attention_post_norm.*": f"{source}.post_attention_layernorm.*",
        f"{layer}.feed_forward_norm.*": f"{source}.pre_feedforward_layernorm.*",
        f"{layer}.feed_forward_post_norm.*": f"{source}.post_feedforward_layernorm.*",
        f"{layer}.layer_input.gate.*": f"{source}.per_layer_input_gate.*",
        f"{layer}.layer_input.project.*": f"{source}.per_layer_projection.*",
        f"{layer}.layer_input.norm.*": f"{source}.post_per_layer_input_norm.*",
        f"{layer}.output_scale.weight": f"{source}.layer_scalar",
        f"{stack}.layer_inputs.word.weight": "embed_tokens_per_layer.weight",
        f"{stack}.layer_inputs.project.*": "per_layer_model_projection.*",
        f"{stack}.layer_inputs.norm.*": "per_layer_projection_norm.*",
    }
    unread = tuple(
        f"layers.{number}.self_attn.{name}.*"
        for number, block in enumerate(spec.stack.layers)
        if block.shared_layer is not None
        for name in ("k_proj", "v_proj", "k_norm", "v_norm")
    )
    experts = _experts(layer, source, spec.stack.blocks[0].experts)
    return Table(inherited.rules | rules | experts, NAMING, (*inherited.drop, *unread))


def _experts(layer: str, source: str, mixture: ExpertsSpec | None) -> Rules:
    """The network beside experts, all experts of a layer in two tensors, their router, and the norms."""
    if mixture is None:
        return {}
    place, count = f"{layer}.feed_forward", mixture.num_experts
    rules: Rules = {
        f"{place}.dense.{name}.*": f"{source}.mlp.{name}_proj.*" for name in ("up", "gate", "down")
    }
    rules |= {
        f"{place}.dense_post_norm.*": f"{source}.post_feedforward_layernorm_1.*",
        f"{place}.router_norm.weight": f"{source}.router.scale",
        f"{place}.experts_norm.*": f"{source}.pre_feedforward_layernorm_2.*",
        f"{place}.experts_post_norm.*": f"{source}.post_feedforward_layernorm_2.*",
        f"{place}.router.weight": f"{source}.router.proj.weight",
        f"{place}.router.expert_scale": f"{source}.router.per_expert_scale",
    }
    for number in range(count):
        down = Take(f"{source}.experts.down_proj", expert=number, experts=count)
        both = replace(down, source=f"{source}.experts.gate_up_proj", parts=2)
        for name, take in {"gate": both, "up": replace(both, part=1), "down": down}.items():
            rules[f"{place}.experts.{number}.{name}.weight"] = take
    return rules
