"""ModernBERT (Warner et al. 2024): pre-norm encoder with RoPE, most layers with a local window."""

from typing import Any

from txexport import tasks
from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.families._rope import rotary
from txexport.spec import (
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    Pick,
    PositionKind,
    PositionSpec,
    RotarySpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("ModernBertModel",),
    "fill-mask": ("ModernBertForMaskedLM",),
    "text-classification": ("ModernBertForSequenceClassification",),
    "token-classification": ("ModernBertForTokenClassification",),
    "question-answering": ("ModernBertForQuestionAnswering",),
    "multiple-choice": ("ModernBertForMultipleChoice",),
}

NAMING = Naming("model.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(sliding_window=None)
    stack = stack_spec(config, config.integer("local_attention", 128) // 2 + 1, causal=False)
    return EncoderSpec(encoder=stack, head=_head(config, task, stack.final_norm))


def stack_spec(config: Config, window: int, *, causal: bool) -> TextStackSpec:
    """The stack, most of whose layers have the local `window`."""
    config.expect(rope_scaling=None)
    width, longest = config.integer("hidden_size"), config.integer("max_position_embeddings")
    norm = NormSpec(width, config.number("norm_eps", 1e-5), bias=config.flag("norm_bias", False))
    every = config.integer("global_attn_every_n_layers", 3)
    local = config.local_layers(lambda layer: layer % every != 0)
    windows = [window if windowed else None for windowed in local]
    blocks = [_block(config, norm, causal, one, first=layer == 0) for layer, one in enumerate(windows)]
    position = PositionSpec(PositionKind.NONE, longest)
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position, norm=norm)
    return TextStackSpec(embedding, minimal_cycle(blocks), len(blocks), final_norm=norm)


def _block(config: Config, norm: NormSpec, causal: bool, window: int | None, first: bool) -> BlockSpec:
    """A layer; the first has no attention norm, since the embedding is normalised already."""
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    head_dim, bias = config.head_dim(width, heads), config.flag("attention_bias", False)
    attention = AttentionSpec(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=head_dim,
        causal=causal,
        bias=bias,
        output_bias=bias,
        rotary=_rotary(config, head_dim, windowed=window is not None),
        window=window,
    )
    feed_forward = FeedForwardSpec(
        width,
        config.integer("intermediate_size"),
        config.activation("hidden_activation", "gelu"),
        bias=config.flag("mlp_bias", False),
        gated=True,
    )
    return BlockSpec(attention, feed_forward, norm, NormPlacement.PRE, skip_attention_norm=first)


def _rotary(config: Config, head_dim: int, windowed: bool) -> RotarySpec:
    """RoPE of a layer type: newer files have a table for each type, older ones a theta."""
    kind, old = ("sliding_attention", "local") if windowed else ("full_attention", "global")
    default = 10_000.0 if windowed else 160_000.0
    theta = config.number(f"{old}_rope_theta", default)
    values = config.table("rope_parameters").table(kind).values
    parameters = {"rope_theta": theta} | {key: value for key, value in values.items() if value is not None}
    return rotary(config.replaced(rope_parameters=parameters, rope_scaling=None), head_dim)


def _head(config: Config, task: str, norm: NormSpec | None) -> HeadSpec:
    kind = tasks.TASKS[task].head
    if kind == HeadKind.NONE:
        return HeadSpec()
    shape: dict[str, Any] = {
        "activation": config.activation("classifier_activation", "gelu"),
        "norm": norm,
        "dense_bias": config.flag("classifier_bias", False),
    }
    if kind == HeadKind.MASKED_LM:
        tied, bias = config.flag("tie_word_embeddings", True), config.flag("decoder_bias", True)
        return HeadSpec(kind, tied=tied, bias=bias, **shape)
    if kind == HeadKind.CHOICES:
        pick = _pick(config, Pick.FIRST_UNMASKED)
        return HeadSpec(kind, tied=False, bias=True, labels=1, pick=pick, **shape)
    if kind == HeadKind.SEQUENCE:
        shape["pick"] = _pick(config, Pick.FIRST)
    return HeadSpec(kind, tied=False, bias=True, labels=config.labels(), **shape)


def _pick(config: Config, first: Pick) -> Pick:
    """The pooling of a sequence; for choices, `first` is a different token than for labels."""
    picks, pooling = {"cls": first, "mean": Pick.MEAN}, config.text("classifier_pooling", "cls")
    if pooling not in picks:
        config.expect(classifier_pooling="cls")
    return picks[pooling]


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, fused, word_embedding = (
        "encoder.layers.{i}",
        "layers.{i}.attn.Wqkv.*",
        "embeddings.tok_embeddings.weight",
    )
    masked = spec.head.kind == HeadKind.MASKED_LM
    projection = "decoder" if masked else "classifier"
    copies = ("decoder.weight",) if masked and spec.head.tied else ()
    rules: Rules = {
        "encoder.embedding.word.weight": Take(word_embedding, also=copies),
        "encoder.embedding.norm.*": "embeddings.norm.*",
        f"{layer}.attention.q.*": Take(fused, part=0, parts=3),
        f"{layer}.attention.k.*": Take(fused, part=1, parts=3),
        f"{layer}.attention.v.*": Take(fused, part=2, parts=3),
        f"{layer}.attention.o.*": "layers.{i}.attn.Wo.*",
        f"{layer}.attention_norm.*": "layers.{i}.attn_norm.*",
        f"{layer}.feed_forward.gate.*": Take("layers.{i}.mlp.Wi.*", part=0, parts=2),
        f"{layer}.feed_forward.up.*": Take("layers.{i}.mlp.Wi.*", part=1, parts=2),
        f"{layer}.feed_forward.down.*": "layers.{i}.mlp.Wo.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.mlp_norm.*",
        "encoder.final_norm.*": "final_norm.*",
        "head.dense.*": "head.dense.*",
        "head.norm.*": "head.norm.*",
        "head.*": f"{projection}.*",
    }
    return Table(rules, NAMING, drop=("head.*", "decoder.*", "classifier.*"))
