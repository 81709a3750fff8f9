"""DeBERTa v2 and v3 (He et al. 2021; He et al. 2023): BERT with disentangled attention."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import bert
from txexport.families._config import Config, TensorNames, shortened
from txexport.spec import (
    DisentangledAttentionSpec,
    EncoderSpec,
    HeadKind,
    PositionKind,
    PositionSpec,
    RelativeVectorsSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("DebertaV2Model",),
    "fill-mask": ("DebertaV2ForMaskedLM",),
    "text-classification": ("DebertaV2ForSequenceClassification",),
    "token-classification": ("DebertaV2ForTokenClassification",),
    "question-answering": ("DebertaV2ForQuestionAnswering",),
    "multiple-choice": ("DebertaV2ForMultipleChoice",),
}

NAMING = Naming("deberta.", {".gamma": ".weight", ".beta": ".bias"})
HEADS = "cls.predictions", "lm_predictions"  # masked LM heads: the library's, and that of DeBERTa's own code


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(layer_norm_eps=1e-7)
    limit = config.integer("max_position_embeddings", 512)
    learned = config.flag("position_biased_input", True)
    base = bert.encoder_spec(
        config,
        task,
        names,
        PositionSpec(PositionKind.LEARNED if learned else PositionKind.NONE, limit),
        config.activation("hidden_act", "gelu"),
        sequence=config.activation("pooler_hidden_act", "gelu"),
        type_vocab_size=config.integer("type_vocab_size", 0),
    )
    if task == "fill-mask":  # the other head is tied to the word embedding, whatever config.json says
        legacy = _legacy(config, names)
        base = replace(base, head=replace(base.head, tied=base.head.tied or not legacy))
    assert isinstance(base.encoder, TextStackSpec)
    stack = _disentangled(config, base.encoder, limit)
    return replace(base, encoder=stack, pooler=False)


def _disentangled(config: Config, stack: TextStackSpec, limit: int) -> TextStackSpec:
    """A stack with disentangled attention and its relative position embedding."""
    [block], width, terms = stack.blocks, stack.hidden_size, terms_of(config)
    sizes = width, block.dense.num_heads, block.dense.head_dim
    config.expect(embedding_size=width, attention_head_size=sizes[2], pooler_hidden_size=width)
    config.expect(conv_kernel_size=0)
    shared = config.flag("share_att_key", False)
    attention = DisentangledAttentionSpec(*sizes, "c2p" in terms, "p2c" in terms, shared)
    most, buckets = config.integer("max_relative_positions", -1), config.integer("position_buckets", -1)
    normed = "layer_norm" in _names(config.text("norm_rel_ebd", "none"))
    relative = RelativeVectorsSpec(
        limit if most < 1 else most, buckets if buckets > 0 else None, block.norm if normed else None
    )
    embedding = replace(stack.embedding, masked=True)
    return replace(
        stack, embedding=embedding, blocks=(replace(block, attention=attention),), relative=relative
    )


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.lower().split("|")]


def terms_of(config: Config) -> list[str]:
    """The position terms of attention (pos_att_type): a list, or names separated by |."""
    value = config.values.get("pos_att_type")
    terms = _names(value) if isinstance(value, str) else config.strings("pos_att_type")
    if not config.flag("relative_attention", False):
        raise UnsupportedError(f"{config.path}: relative_attention=False is not supported; expected True")
    if not terms or not set(terms) <= {"c2p", "p2c"}:
        raise UnsupportedError(
            f"{config.path}: pos_att_type={shortened(value)} is not supported; expected c2p, p2c or both"
        )
    return terms


def _legacy(config: Config, names: TensorNames) -> bool:
    """Tell which masked LM head config.json selects. Raises CheckpointError where another one is stored."""
    legacy = config.flag("legacy", True)
    stored = [head for head in HEADS if any(name.startswith(f"{head}.") for name in names)]
    if stored != [HEADS[not legacy]]:
        raise CheckpointError(
            f"{config.path}: legacy={legacy} means a masked LM's head called {HEADS[not legacy]}, and the "
            f"weights have {' and '.join(stored) or 'none'}; write the value of the one that was trained"
        )
    return legacy


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = bert.LAYER, f"{bert.SOURCE}.attention.self"
    rules: Rules = bert.stack_rules() | {
        f"{layer}.attention.q.*": f"{source}.query_proj.*",
        f"{layer}.attention.k.*": f"{source}.key_proj.*",
        f"{layer}.attention.v.*": f"{source}.value_proj.*",
        f"{layer}.attention.k_position.*": f"{source}.pos_key_proj.*",
        f"{layer}.attention.q_position.*": f"{source}.pos_query_proj.*",
        "encoder.relative.weight": "encoder.rel_embeddings.weight",
        "encoder.relative.norm.*": "encoder.LayerNorm.*",
    }
    rules |= bert.head_rules(spec, sequence=bert.POOLED, masked_lm=_masked_lm(spec))
    unused = ("embeddings.position_ids", "embeddings.position_embeddings.*", "mask_predictions.*")
    heads = ("pooler.*", "classifier.*", "qa_outputs.*", *(f"{head}.*" for head in HEADS))
    return Table(rules, NAMING, drop=unused + heads)


def _masked_lm(spec: EncoderSpec) -> Rules:
    """The masked LM head under one of its two names, checked by `_legacy`."""
    (ours, other), word_embedding = HEADS, "embeddings.word_embeddings.weight"
    rules = bert.masked_lm_rules(spec, word_embedding, f"{ours}.decoder", f"{ours}.bias")
    if spec.head.kind == HeadKind.MASKED_LM and spec.head.tied:
        again, newer = f"{ours}.decoder.bias", f"{other}.lm_head.bias"
        rules["head.bias"] = Take(f"{ours}.bias", also=(again,), fallback=newer)
    for part, name in (("dense", "dense"), ("norm", "LayerNorm")):
        newer = f"{other}.lm_head.{name}.*"
        rules[f"head.{part}.*"] = Take(f"{ours}.transform.{name}.*", fallback=newer)
    return rules
