"""Gemma 3n, the text model (Gemma Team 2025): several vectors of a token, shared keys, sparse activations."""

import math
from dataclasses import replace

import numpy as np

from txexport.checkpoints.weight_map import Rules, Table
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import _causal, gemma3_text, gemma4_text, llama
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.families._elementary import normal_quantile
from txexport.families.gemma4_text import FULL, WINDOWED
from txexport.spec import (
    AttentionSpec,
    AugmentedResidualSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    LayerInputSpec,
    LayerInputsSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    SharedAttentionSpec,
    StreamsSpec,
    TextStackSpec,
)

TASKS = {"text-generation": ("Gemma3nForCausalLM",)}

NAMING = llama.NAMING
DEFAULTS = {"num_hidden_layers": 35, "num_kv_shared_layers": 15, "head_dim": 256}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    softcap = config.values.get("final_logit_softcapping", 30.0)
    return _causal.model(
        config,
        task,
        stack_spec(config.with_defaults(**DEFAULTS)),
        tied=True,
        softcap=None if softcap is None else config.number("final_logit_softcapping", 30.0),
    )


def stack_spec(config: Config) -> TextStackSpec:
    """The decoder: every fifth layer has full attention, and the first ten have sparse activations."""
    config.expect(altup_active_idx=0)
    width, size = config.integer("hidden_size", 2048), config.integer("hidden_size_per_layer_input", 256)
    norm = NormSpec(width, config.number("rms_norm_eps", 1e-6), NormKind.RMS)
    most = config.integer("max_position_embeddings", 32_768)
    local = config.local_layers(lambda layer: bool((layer + 1) % 5))
    sources = gemma4_text.shared_layers(config, [WINDOWED if windowed else FULL for windowed in local])
    activation = config.activation("hidden_activation", "gelu_pytorch_tanh")
    networks = [
        FeedForwardSpec(width, inner, activation, bias=False, gated=True, cutoff=cutoff)
        for inner, cutoff in zip(
            config.each("intermediate_size", len(local), 16_384), _cutoffs(config, len(local)), strict=True
        )
    ]
    attentions = {windowed: _attention(config, norm, windowed, most) for windowed in set(local)}
    vectors = config.integer("altup_num_inputs", 4)
    if vectors < 2:
        raise UnsupportedError(f"{config.path}: altup_num_inputs is {vectors}, expected 2 or more")
    plain = BlockSpec(
        attentions[local[0]],
        networks[0],
        norm,
        NormPlacement.SANDWICH,
        layer_input=LayerInputSpec(width, size, activation, norm),
        augmented_residual=AugmentedResidualSpec(width, config.integer("laurel_rank", 64), norm),
        streams=StreamsSpec(vectors, norm, config.flag("altup_correct_scale", True)),
    )
    blocks = []
    for windowed, source, network in zip(local, sources, networks, strict=True):
        attention = attentions[windowed]
        shared = attention if source is None else SharedAttentionSpec(attention, source)
        blocks.append(replace(plain, attention=shared, feed_forward=network))
    vocab_size, rows = (
        config.integer("vocab_size", 262_400),
        config.integer("vocab_size_per_layer_input", 262_144),
    )
    embedding = EmbeddingSpec(
        vocab_size, width, PositionSpec(PositionKind.NONE, most), scale=math.sqrt(width)
    )
    inputs = LayerInputsSpec(rows, replace(norm, size=size), partial=rows < vocab_size)
    return TextStackSpec(embedding, minimal_cycle(blocks), len(blocks), final_norm=norm, layer_inputs=inputs)


def _cutoffs(config: Config, layers: int) -> list[float | None]:
    """For each layer the standard deviations above which a gate is active, from the share that is not."""
    if config.values.get("activation_sparsity_pattern") is None:
        sparse = 10 if layers > 10 else 0
        shares = [0.95] * sparse + [0.0] * (layers - sparse)
    else:
        shares = config.numbers("activation_sparsity_pattern")
    if len(shares) != layers or max(shares) >= 1:
        raise CheckpointError(
            f"{config.path}: activation_sparsity_pattern is {shares}, expected {layers} numbers below 1"
        )
    return [normal_quantile(float(np.float32(share))) if share > 0 else None for share in shares]


def _attention(config: Config, norm: NormSpec, windowed: bool, most: int) -> AttentionSpec:
    """The attention of a kind of layers, whose scores are not scaled."""
    bias, head_dim = config.flag("attention_bias", False), config.integer("head_dim")
    window = config.integer("sliding_window", 512)
    return AttentionSpec(
        hidden_size=norm.size,
        num_heads=config.integer("num_attention_heads", 8),
        num_kv_heads=config.integer("num_key_value_heads", 2),
        head_dim=head_dim,
        causal=True,
        bias=bias,
        output_bias=bias,
        scale=1.0,
        rotary=gemma3_text.layer_rotary(config, windowed),
        window=window if windowed and window < most else None,
        head_norm=replace(norm, size=head_dim),
        value_norm=True,
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Gemma 4's, with the residuals of low rank and what predicts and corrects a token's vectors."""
    stack, inherited = _causal.stack_name(spec), gemma4_text.table(spec)
    layer, source = f"{stack}.layers.{{i}}", "layers.{i}"
    rules: Rules = {
        f"{layer}.augmented_residual.down.*": f"{source}.laurel.linear_left.*",
        f"{layer}.augmented_residual.up.*": f"{source}.laurel.linear_right.*",
        f"{layer}.augmented_residual.norm.*": f"{source}.laurel.post_laurel_norm.*",
        f"{layer}.streams.router.norm.*": f"{source}.altup.router_norm.*",
        f"{layer}.streams.router.project.*": f"{source}.altup.modality_router.*",
        f"{layer}.streams.predict.*": f"{source}.altup.prediction_coefs.*",
        f"{layer}.streams.correct.*": f"{source}.altup.correction_coefs.*",
        f"{layer}.streams.scale.weight": f"{source}.altup.correct_output_scale",
    }
    streams = spec.stack.blocks[0].streams
    assert streams is not None
    for i in range(streams.count - 1):
        rules[f"{stack}.expand.project.{i}.*"] = f"altup_projections.{i}.*"
        rules[f"{stack}.merge.project.{i}.*"] = f"altup_unembed_projections.{i}.*"
    unread = () if streams.output_scale else ("layers.*.altup.correct_output_scale",)
    return Table(inherited.rules | rules, NAMING, (*inherited.drop, *unread))
