"""FNet (Lee-Thorp et al. 2021): BERT with a Fourier transform in place of attention.

It reads no mask, so padding changes every vector: texts of one batch need the same number of tokens.
"""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    BlockSpec,
    EmbeddingSpec,
    EncoderSpec,
    FeedForwardSpec,
    FourierMixingSpec,
    HeadKind,
    HeadSpec,
    NormPlacement,
    NormSpec,
    PositionKind,
    PositionSpec,
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("FNetModel",),
    "fill-mask": ("FNetForMaskedLM",),
    "pretraining": ("FNetForPreTraining",),
    "next-sentence-prediction": ("FNetForNextSentencePrediction",),
    "text-classification": ("FNetForSequenceClassification",),
    "token-classification": ("FNetForTokenClassification",),
    "question-answering": ("FNetForQuestionAnswering",),
    "multiple-choice": ("FNetForMultipleChoice",),
}

NAMING = Naming("fnet.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(use_tpu_fourier_optimizations=False)
    bert.check_label_head(config, task, names)
    width = config.integer("hidden_size", 768)
    norm = NormSpec(width, config.number("layer_norm_eps", 1e-12))
    activation = config.activation("hidden_act", "gelu_new")
    embedding = EmbeddingSpec(
        config.integer("vocab_size", 32000),
        width,
        PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings", 512)),
        type_vocab_size=config.integer("type_vocab_size", 4),
        norm=norm,
        factored_size=width,
    )
    network = FeedForwardSpec(width, config.integer("intermediate_size", 3072), activation)
    block = BlockSpec(FourierMixingSpec(width), network, norm, NormPlacement.POST)
    stack = TextStackSpec(embedding, (block,), config.count("num_hidden_layers", 12))
    if task == "feature-extraction":
        return EncoderSpec(stack, pooler="pooler.dense.weight" in names)
    if task in ("fill-mask", "pretraining"):
        tied = config.flag("tie_word_embeddings", True)
        head = HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True, activation=activation, norm=norm)
        pair = bert.label_head(config, bert.NEXT_SENTENCE, Activation.TANH) if task == "pretraining" else None
        return EncoderSpec(stack, head=head, next_sentence=pair)
    return EncoderSpec(stack, head=bert.label_head(config, task, Activation.TANH))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = "encoder.layers.{i}", "encoder.layer.{i}"
    rules: Rules = {
        "encoder.embedding.word.weight": "embeddings.word_embeddings.weight",
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        "encoder.embedding.project.*": "embeddings.projection.*",
        f"{layer}.attention_norm.*": f"{source}.fourier.output.LayerNorm.*",
        f"{layer}.feed_forward.up.*": f"{source}.intermediate.dense.*",
        f"{layer}.feed_forward.down.*": f"{source}.output.dense.*",
        f"{layer}.feed_forward_norm.*": f"{source}.output.LayerNorm.*",
        "pooler.dense.*": "pooler.dense.*",
        **bert.task_rules(spec),
    }
    drop = ("embeddings.position_ids", "pooler.*", "cls.*", "classifier.*", "qa_outputs.*")
    return Table(rules, NAMING, drop)
