"""Gemma 2 (Gemma Team 2024): sandwich norm, soft-capped scores, sliding windows in every other layer."""

import math
from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.families._rope import longest, rotary
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
    TextStackSpec,
)

TASKS = _causal.tasks("Gemma2", spans=False)

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return decoder_spec(config, task, NormPlacement.SANDWICH)


def decoder_spec(config: Config, task: str, placement: NormPlacement) -> EncoderSpec | DecoderSpec:
    """The architecture with norms before each sublayer, or before and after it."""
    config.expect(use_bidirectional_attention=False)
    cap = logits_cap(config)
    return _causal.model(config, task, stack_spec(config, placement), tied=True, softcap=cap)


def stack_spec(
    config: Config, placement: NormPlacement, causal: bool = True, crossed: int | None = None
) -> TextStackSpec:
    """Gemma 2's stack; with vectors `crossed` wide of an encoder, each layer has cross attention to them.

    In a bidirectional stack, a window counts the tokens on either side, in a causal one the token itself too.
    """
    config = config.with_defaults(num_key_value_heads=4)
    width, heads, head_dim = (
        config.integer(key) for key in ("hidden_size", "num_attention_heads", "head_dim")
    )
    norm = NormSpec(width, config.number("rms_norm_eps", 1e-6), NormKind.RMS)
    bias, window = config.flag("attention_bias", False), config.integer("sliding_window", 4096) + (not causal)
    most = longest(config)
    attention = AttentionSpec(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        causal=causal,
        bias=bias,
        output_bias=bias,
        scale=1 / math.sqrt(config.number("query_pre_attn_scalar", 256)),
        rotary=rotary(config, head_dim),
        softcap=_cap(config, "attn_logit_softcapping", 50.0),
    )
    cross = replace(attention, causal=False, rotary=None, source_size=crossed)
    activation = config.activation("hidden_activation", "gelu_pytorch_tanh")
    blocks = [
        BlockSpec(
            replace(attention, window=window if local and window < most else None),
            FeedForwardSpec(width, config.integer("intermediate_size"), activation, bias=False, gated=True),
            norm,
            placement,
            cross_attention=None if crossed is None else cross,
        )
        for local in config.local_layers(lambda layer: layer % 2 == 0)
    ]
    return TextStackSpec(
        EmbeddingSpec(
            config.integer("vocab_size"),
            width,
            PositionSpec(PositionKind.NONE, most),
            scale=math.sqrt(width),
        ),
        minimal_cycle(blocks),
        len(blocks),
        final_norm=norm,
    )


def logits_cap(config: Config) -> float | None:
    """The soft cap of logits."""
    return _cap(config, "final_logit_softcapping", 30.0)


def _cap(config: Config, key: str, default: float) -> float | None:
    """A soft cap of scores; null means none, a missing key the default."""
    return None if key in config.values and config.values[key] is None else config.number(key, default)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's, with other names of the norms, whose weights are stored minus 1."""
    stack, inherited = _causal.stack_name(spec), llama.table(spec)
    layer, source = f"{stack}.layers.{{i}}", "layers.{i}"
    rules: Rules = {
        f"{layer}.attention_norm.*": Take(f"{source}.input_layernorm.*", plus=1.0),
        f"{layer}.attention_post_norm.*": Take(f"{source}.post_attention_layernorm.*", plus=1.0),
        f"{layer}.feed_forward_norm.*": Take(f"{source}.pre_feedforward_layernorm.*", plus=1.0),
        f"{layer}.feed_forward_post_norm.*": Take(f"{source}.post_feedforward_layernorm.*", plus=1.0),
        f"{stack}.final_norm.*": Take("norm.*", plus=1.0),
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
