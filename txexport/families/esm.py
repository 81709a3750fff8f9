"""ESM-2 (Lin et al. 2023): pre-norm protein encoder with RoPE; embeddings are rescaled for token dropout."""

from dataclasses import replace

import numpy as np

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import CheckpointError
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    RotarySpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("EsmModel",),
    "fill-mask": ("EsmForMaskedLM",),
    "text-classification": ("EsmForSequenceClassification",),
    "token-classification": ("EsmForTokenClassification",),
}

NAMING = Naming("esm.", {".gamma": ".weight", ".beta": ".bias"})


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(is_folding_model=False, is_decoder=False, add_cross_attention=False)
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    norm, head_dim = NormSpec(width, config.number("layer_norm_eps", 1e-12)), config.head_dim(width, heads)
    rotates = config.text("position_embedding_type", "absolute") == "rotary"
    attention = AttentionSpec(width, heads, heads, head_dim, causal=False)
    if rotates:
        attention = replace(attention, rotary=RotarySpec(_frequencies(config, head_dim, names)))
    block = BlockSpec(
        attention,
        FeedForwardSpec(width, config.integer("intermediate_size"), Activation.GELU),
        norm,
        NormPlacement.PRE,
    )
    embedding = EmbeddingSpec(
        config.integer("vocab_size"),
        width,
        _position(config, rotates),
        norm=norm if config.flag("emb_layer_norm_before", False) else None,
        masked=True,
        dropped=config.integer("mask_token_id") if config.flag("token_dropout", False) else None,
    )
    stack = TextStackSpec(embedding, (block,), config.count("num_hidden_layers"), final_norm=norm)
    if task == "feature-extraction":
        return EncoderSpec(encoder=stack, pooler="pooler.dense.weight" in names)
    if task == "fill-mask":
        tied = config.flag("tie_word_embeddings", True)
        head = HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True, activation=Activation.GELU, norm=norm)
        return EncoderSpec(encoder=stack, head=head)
    return EncoderSpec(encoder=stack, head=bert.label_head(config, task, Activation.TANH))


def _position(config: Config, rotates: bool) -> PositionSpec:
    size = config.integer("max_position_embeddings", 1026)
    if rotates:
        return PositionSpec(PositionKind.NONE, size)
    config.expect(position_embedding_type="absolute")
    padding = config.integer("pad_token_id")
    return PositionSpec(PositionKind.LEARNED, size, offset=padding, pad_token_id=padding)


def _frequencies(config: Config, head_dim: int, names: TensorNames) -> tuple[float, ...]:
    """Inverse frequencies; a checkpoint may store them rounded, and then those are used."""
    stored = sorted(name for name in names if name.endswith("rotary_embeddings.inv_freq"))
    if stored:
        frequencies = names.read(stored[0])
        if frequencies.ndim != 1 or not np.isfinite(frequencies).all():
            raise CheckpointError(f"tensor '{stored[0]}' is not one row of finite frequencies")
        return tuple(frequencies.tolist())
    return plain_frequencies(config.number("rope_theta", 10000.0), head_dim)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = bert.LAYER, bert.SOURCE
    rules: Rules = bert.stack_rules() | {
        "encoder.embedding.norm.*": "embeddings.layer_norm.*",
        f"{layer}.attention_norm.*": f"{source}.attention.LayerNorm.*",
        f"{layer}.feed_forward_norm.*": f"{source}.LayerNorm.*",
        "encoder.final_norm.*": "encoder.emb_layer_norm_after.*",
    }
    masked_lm: Rules = {"head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.layer_norm.*"}
    word_embedding = "embeddings.word_embeddings.weight"
    rules |= bert.head_rules(
        spec,
        sequence={"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
        masked_lm=masked_lm | bert.masked_lm_rules(spec, word_embedding, "lm_head.decoder", "lm_head.bias"),
    )
    drop: tuple[str, ...] = (
        "embeddings.position_ids",
        "*rotary_embeddings.inv_freq",
        "pooler.*",
        "contact_head.*",
        "lm_head.*",
        "classifier.*",
    )
    if spec.stack.blocks[0].dense.rotary is not None:
        drop += ("embeddings.position_embeddings.weight",)
    return Table(rules, NAMING, drop)
