"""RecurrentGemma (Botev et al. 2024): gated linear recurrences, attention in a sliding window."""

import math

import numpy as np

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.families._rope import rotary, scaling
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    RgLruSpec,
    TextStackSpec,
)

TASKS = {"text-generation": ("RecurrentGemmaForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {"sliding_window": "attention_window_size", "layer_types": "layers_block_type"}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; there is no limit of positions."""
    cap = config.number("logits_soft_cap", 30.0)
    return _causal.model(config, task, stack_spec(config), tied=True, softcap=cap)


def stack_spec(config: Config) -> TextStackSpec:
    """Layers of one width, in which recurrences and attention take turns as `block_types` tells."""
    config.expect(embeddings_scale_by_sqrt_dim=True, layer_types=None, layers_block_type=None)
    config = config.renamed(ALIASES).with_defaults(
        hidden_size=2560,
        num_hidden_layers=26,
        num_attention_heads=10,
        vocab_size=256_000,
        intermediate_size=3 * 2560,
    )
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm = NormSpec(width, config.number("rms_norm_eps", 1e-6), NormKind.RMS)
    activation = config.activation("hidden_activation", "gelu_pytorch_tanh")
    attention = BlockSpec(
        _attention(config, width, heads),
        FeedForwardSpec(width, config.integer("intermediate_size") // 2, activation, bias=True, gated=True),
        norm,
        NormPlacement.PRE,
    )
    kernel = config.integer("conv1d_width", 4)
    recurrence = RgLruSpec(width, config.integer("lru_width", width), heads, kernel, activation)
    position = PositionSpec(PositionKind.NONE)
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position, scale=_root(width))
    stack = TextStackSpec(embedding, (attention,), config.count("num_hidden_layers"), final_norm=norm)
    return _causal.beside_attention(config, stack, _attends(config, stack.num_layers), lambda: recurrence)


def _attention(config: Config, width: int, heads: int) -> AttentionSpec:
    """Attention in a sliding window, with RoPE over a share of each head."""
    _, kind = scaling(config)
    if kind != "default":
        raise UnsupportedError(f"{config.path}: rope_type '{kind}' is not supported; expected default")
    has_head_dim = config.values.get("head_dim") is not None
    head_dim = config.integer("head_dim") if has_head_dim else config.head_dim(width, heads)
    return AttentionSpec(
        width,
        heads,
        config.integer("num_key_value_heads", heads),
        head_dim,
        causal=True,
        bias=config.flag("attention_bias", False),
        output_bias=True,
        window=config.integer("attention_window_size", 2048),
        rotary=rotary(config, head_dim, fraction="partial_rotary_factor", default=0.5),
    )


def _attends(config: Config, count: int) -> list[bool]:
    """For each layer, tell whether it has attention. Raises UnsupportedError for another kind."""
    # Published files say _block_types, as transformers 4 wrote it.
    kinds = (
        config.strings("block_types")
        or config.strings("_block_types")
        or ["recurrent", "recurrent", "attention"]
    )
    if set(kinds) - {"recurrent", "attention"}:
        raise UnsupportedError(
            f"{config.path}: block_types {kinds} is not supported; expected recurrent or attention for each"
        )
    return [kinds[layer % len(kinds)] == "attention" for layer in range(count)]


def _root(width: int) -> float:
    """The square root of the width, rounded to bfloat16 as in the original."""
    bits = np.array(math.sqrt(width), np.float32).view(np.uint32)
    odd = (bits >> 16) & 1
    rounded = (bits + 0x7FFF + odd) & 0xFFFF0000  # half way to the even number
    return float(rounded.view(np.float32))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; the scales of norms are stored minus 1."""
    stack = _causal.stack_name(spec)
    layer, source = f"{stack}.layers.{{i}}", "layers.{i}.temporal_block"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_tokens.weight", also=_causal.copies(spec)),
        f"{layer}.attention_norm.*": Take("layers.{i}.temporal_pre_norm.*", plus=1.0),
        f"{layer}.feed_forward_norm.*": Take("layers.{i}.channel_pre_norm.*", plus=1.0),
        f"{stack}.final_norm.*": Take("final_norm.*", plus=1.0),
        f"{layer}.attention.convolution.*": f"{source}.conv_1d.*",
        f"{layer}.attention.rate": f"{source}.rg_lru.recurrent_param",
    }
    projections = {"project": "linear_x", "gate": "linear_y", "output": "linear_out"}
    projections |= {name: f"{name}_proj" for name in "qkvo"}
    rules |= {f"{layer}.attention.{ours}.*": f"{source}.{theirs}.*" for ours, theirs in projections.items()}
    rules |= {
        f"{layer}.feed_forward.{name}.*": f"layers.{{i}}.mlp_block.{name}_proj.*"
        for name in ("gate", "up", "down")
    }
    for block in spec.stack.blocks:
        if isinstance(block.attention, RgLruSpec):
            for name in ("input_gate", "recurrent_gate"):
                rules |= _gate(f"{layer}.attention.{name}", f"{source}.rg_lru.{name}", block.attention)
    return Table(rules | _causal.head_rules(spec), NAMING, _causal.other_heads(spec))


def _gate(ours: str, source: str, spec: RgLruSpec) -> Rules:
    """The blocks of a gate, which the checkpoint has in one tensor."""
    rules: Rules = {}
    count = spec.num_blocks
    for number in range(count):
        block = f"{ours}.groups.{number}" if count > 1 else ours
        rules[f"{block}.weight"] = Take(f"{source}_weight", transpose=True, expert=number, experts=count)
        rules[f"{block}.bias"] = Take(f"{source}_bias", expert=number, experts=count)
    return rules
