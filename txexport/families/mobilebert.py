"""MobileBERT (Sun et al. 2020): a deep, narrow BERT, each layer within a bottleneck.

The vectors of three words in a row are read together, so the last token before padding reads the vector of
the padding token, as in the original.
"""

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    BlockSpec,
    BottleneckSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("MobileBertModel",),
    "fill-mask": ("MobileBertForMaskedLM",),
    "pretraining": ("MobileBertForPreTraining",),
    "text-classification": ("MobileBertForSequenceClassification",),
    "token-classification": ("MobileBertForTokenClassification",),
    "question-answering": ("MobileBertForQuestionAnswering",),
    "multiple-choice": ("MobileBertForMultipleChoice",),
}

NAMING = Naming("mobilebert.")
BESIDE: Rules = {"head.beside.weight": Take("cls.predictions.dense.weight", transpose=True)}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_bottleneck=True, use_bottleneck_attention=False, key_query_shared_bottleneck=True)
    width, size = config.integer("hidden_size", 512), config.integer("intra_bottleneck_size", 128)
    heads = config.integer("num_attention_heads", 4)
    network = FeedForwardSpec(
        size, config.integer("intermediate_size", 512), config.activation("hidden_act", "relu")
    )
    config.expect(trigram_input=True)
    inside = BottleneckSpec(
        width,
        heads,
        config.head_dim(size, heads),
        network,
        config.integer("num_feedforward_networks", 4),
        _norm(config, size),
    )
    norm = _norm(config, width)
    embedding = EmbeddingSpec(
        config.integer("vocab_size", 30522),
        width,
        PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings", 512)),
        type_vocab_size=config.integer("type_vocab_size", 2),
        norm=norm,
        factored_size=config.integer("embedding_size", 128),
        project_first=True,
        trigrams=True,
    )
    block = BlockSpec(inside, None, norm, NormPlacement.POST)
    stack = TextStackSpec(embedding, (block,), config.count("num_hidden_layers", 24))
    pooled = config.flag("classifier_activation", True)
    labels = Activation.TANH if pooled else None
    if task == "feature-extraction":
        return EncoderSpec(stack, pooler=pooled and "pooler.dense.weight" in names)
    if task in ("fill-mask", "pretraining"):
        pair = bert.label_head(config, bert.NEXT_SENTENCE, labels) if task == "pretraining" else None
        return EncoderSpec(stack, head=_words(config, stack), next_sentence=pair)
    return EncoderSpec(stack, head=bert.label_head(config, task, labels))


def _words(config: Config, stack: TextStackSpec) -> HeadSpec:
    """Scores of the vocabulary, of vectors wider than its embedding (MobileBertLMPredictionHead)."""
    tied = config.flag("tie_word_embeddings", True)
    norm = NormSpec(stack.hidden_size, config.number("layer_norm_eps", 1e-12))
    activation = config.activation("hidden_act", "relu")
    wider = stack.hidden_size - stack.embedding.word_size
    return HeadSpec(HeadKind.MASKED_LM, tied, True, activation, norm, beside=wider or None)


def _norm(config: Config, size: int) -> NormSpec:
    config.expect(normalization_type="no_norm")
    return NormSpec(size, 1, NormKind.NONE)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; the last network of a layer has other names."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    within, attention = f"{layer}.attention", f"{source}.attention"
    inside = spec.encoder.blocks[0].attention
    assert isinstance(inside, BottleneckSpec)
    rules: Rules = {
        "encoder.embedding.word.weight": "embeddings.word_embeddings.weight",
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        "encoder.embedding.project.*": "embeddings.embedding_transformation.*",
        f"{within}.residual.*": f"{source}.bottleneck.input.dense.*",
        f"{within}.residual_norm.*": f"{source}.bottleneck.input.LayerNorm.*",
        f"{within}.narrow.*": f"{source}.bottleneck.attention.dense.*",
        f"{within}.narrow_norm.*": f"{source}.bottleneck.attention.LayerNorm.*",
        f"{within}.q.*": f"{attention}.self.query.*",
        f"{within}.k.*": f"{attention}.self.key.*",
        f"{within}.v.*": f"{attention}.self.value.*",
        f"{within}.o.*": f"{attention}.output.dense.*",
        f"{within}.o_norm.*": f"{attention}.output.LayerNorm.*",
        f"{within}.wide.*": f"{source}.output.bottleneck.dense.*",
        f"{layer}.attention_norm.*": f"{source}.output.bottleneck.LayerNorm.*",
        "pooler.dense.*": "pooler.dense.*",
        **bert.head_rules(spec, sequence=bert.POOLED, masked_lm=bert.task_rules(spec) | BESIDE),
    }
    for number in range(inside.networks):
        last = number == inside.networks - 1
        network = source if last else f"{source}.ffn.{number}"
        rules |= {
            f"{within}.networks.{number}.up.*": f"{network}.intermediate.dense.*",
            f"{within}.networks.{number}.down.*": f"{network}.output.dense.*",
            f"{within}.norms.{number}.*": f"{network}.output.LayerNorm.*",
        }
    drop = ("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*")
    return Table(rules, NAMING, drop)
