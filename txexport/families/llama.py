"""LLaMA 1 to 3 (Touvron et al. 2023): pre-norm decoder with RMSNorm, RoPE and SwiGLU."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import _causal
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.families._rope import longest, rotary
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    ExpertsSpec,
    FeedForwardSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = _causal.tasks("Llama")

NAMING = Naming("model.", others=("transformer.",))  # the latter prefix is of question answering


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    bias = config.flag("attention_bias", False)
    return decoder_spec(
        config, task, bias=bias, output_bias=bias, feed_forward_bias=config.flag("mlp_bias", False)
    )


def decoder_spec(config: Config, task: str, **varied: Any) -> EncoderSpec | DecoderSpec:
    """LLaMA's architecture; `varied` are arguments of `stack_spec`."""
    return _causal.model(config, task, stack_spec(config, **varied), tied=False)


def stack_spec(
    config: Config,
    *,
    bias: bool = False,
    output_bias: bool = False,
    feed_forward_bias: bool = False,
    windows: Sequence[int | None] = (None,),
    head_norm: bool = False,
    mixture: Callable[[FeedForwardSpec], ExpertsSpec] | None = None,
    fraction: str | None = None,
) -> TextStackSpec:
    """LLaMA's stack with the options of its descendants; `windows` are the sliding windows of the layers.

    `mixture` replaces the feed-forward network by a mixture of experts; `fraction` is the name of
    partial_rotary_factor.
    """
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    has_head_dim = config.values.get("head_dim") is not None
    head_dim = config.integer("head_dim") if has_head_dim else config.head_dim(width, heads)
    eps, most = config.number("rms_norm_eps", 1e-6), longest(config)
    norm = NormSpec(width, eps, NormKind.RMS)
    attention = AttentionSpec(
        width,
        heads,
        config.integer("num_key_value_heads", heads),
        head_dim,
        causal=True,
        bias=bias,
        output_bias=output_bias,
        rotary=rotary(config, head_dim, fraction=fraction, long=True),
        head_norm=NormSpec(head_dim, eps, NormKind.RMS) if head_norm else None,
    )
    activation = config.activation("hidden_act", "silu")
    feed_forward = FeedForwardSpec(
        width, config.integer("intermediate_size"), activation, bias=feed_forward_bias, gated=True
    )
    position = PositionSpec(PositionKind.NONE, most)
    return TextStackSpec(
        EmbeddingSpec(config.integer("vocab_size"), width, position),
        minimal_cycle(
            BlockSpec(
                replace(attention, window=window if window is not None and window < most else None),
                mixture(feed_forward) if mixture is not None else feed_forward,
                norm,
                NormPlacement.PRE,
            )
            for window in windows
        ),
        config.count("num_hidden_layers"),
        final_norm=norm,
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    stack = _causal.stack_name(spec)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_tokens.weight", also=_causal.copies(spec)),
        f"{layer}.attention.q.*": "layers.{i}.self_attn.q_proj.*",
        f"{layer}.attention.k.*": "layers.{i}.self_attn.k_proj.*",
        f"{layer}.attention.v.*": "layers.{i}.self_attn.v_proj.*",
        f"{layer}.attention.o.*": "layers.{i}.self_attn.o_proj.*",
        f"{layer}.attention.q_norm.*": "layers.{i}.self_attn.q_norm.*",
        f"{layer}.attention.k_norm.*": "layers.{i}.self_attn.k_norm.*",
        f"{layer}.attention_norm.*": "layers.{i}.input_layernorm.*",
        f"{layer}.feed_forward.up.*": "layers.{i}.mlp.up_proj.*",
        f"{layer}.feed_forward.gate.*": "layers.{i}.mlp.gate_proj.*",
        f"{layer}.feed_forward.down.*": "layers.{i}.mlp.down_proj.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.post_attention_layernorm.*",
        f"{stack}.final_norm.*": "norm.*",
    }
    drop = ("layers.*.self_attn.rotary_emb.inv_freq", *_causal.other_heads(spec))
    return Table(rules | _causal.head_rules(spec), NAMING, drop)
