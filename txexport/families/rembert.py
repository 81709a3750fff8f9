"""RemBERT (Chung et al. 2021): BERT with decoupled input and output embeddings of different widths."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, NormSpec, PositionKind, PositionSpec

TASKS = {
    "feature-extraction": ("RemBertModel",),
    "fill-mask": ("RemBertForMaskedLM",),
    "text-classification": ("RemBertForSequenceClassification",),
    "token-classification": ("RemBertForTokenClassification",),
    "question-answering": ("RemBertForQuestionAnswering",),
    "multiple-choice": ("RemBertForMultipleChoice",),
}

NAMING = replace(bert.NAMING, prefix="rembert.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; the output embedding is not tied."""
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    read, written = config.integer("input_embedding_size", 256), config.integer("output_embedding_size", 1664)
    activation = config.activation("hidden_act", "gelu")
    untied = config.replaced(tie_word_embeddings=False)
    base = bert.encoder_spec(untied, task, names, position, activation, factored_size=read)
    if task != "fill-mask":
        return base
    norm = NormSpec(written, config.number("layer_norm_eps", 1e-12))
    return replace(base, head=replace(base.head, norm=norm))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    word_embedding, head = "embeddings.word_embeddings.weight", "cls.predictions"
    masked_lm: Rules = {"head.dense.*": f"{head}.dense.*", "head.norm.*": f"{head}.LayerNorm.*"}
    masked_lm |= bert.masked_lm_rules(spec, word_embedding, f"{head}.decoder", f"{head}.decoder.bias")
    rules = bert.stack_rules() | bert.head_rules(spec, sequence=bert.POOLED, masked_lm=masked_lm)
    rules["encoder.embedding.project.*"] = "encoder.embedding_hidden_mapping_in.*"
    drop = ("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*")
    return Table(rules, NAMING, drop)
