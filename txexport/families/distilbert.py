"""DistilBERT (Sanh et al. 2019): BERT without token types and pooler."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
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
    TextStackSpec,
)

TASKS = {
    "feature-extraction": ("DistilBertModel",),
    "fill-mask": ("DistilBertForMaskedLM",),
    "text-classification": ("DistilBertForSequenceClassification",),
    "token-classification": ("DistilBertForTokenClassification",),
    "question-answering": ("DistilBertForQuestionAnswering",),
    "multiple-choice": ("DistilBertForMultipleChoice",),
}

NAMING = Naming("distilbert.", {".gamma": ".weight", ".beta": ".bias"})
ALIASES = {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}
EPS = 1e-12  # fixed in the original, not in config.json


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; sinusoidal positions are stored like learned ones."""
    width, heads = config.integer("dim"), config.integer("n_heads")
    norm, activation = NormSpec(width, EPS), config.activation("activation", "gelu")
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    block = BlockSpec(
        AttentionSpec(width, heads, heads, config.head_dim(width, heads), causal=False),
        FeedForwardSpec(width, config.integer("hidden_dim"), activation),
        norm,
        NormPlacement.POST,
    )
    embedding = EmbeddingSpec(config.integer("vocab_size"), width, position, norm=norm)
    stack = TextStackSpec(embedding, (block,), config.count("n_layers"))
    if task == "feature-extraction":
        return EncoderSpec(encoder=stack)
    if task == "fill-mask":
        tied = config.flag("tie_word_embeddings", True)
        head = HeadSpec(HeadKind.MASKED_LM, tied=tied, bias=True, activation=activation, norm=norm)
        return EncoderSpec(encoder=stack, head=head)
    return EncoderSpec(encoder=stack, head=bert.label_head(config, task, Activation.RELU))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer, source = "encoder.layers.{i}", "transformer.layer.{i}"
    rules: Rules = {
        "encoder.embedding.word.weight": "embeddings.word_embeddings.weight",
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        f"{layer}.attention.q.*": f"{source}.attention.q_lin.*",
        f"{layer}.attention.k.*": f"{source}.attention.k_lin.*",
        f"{layer}.attention.v.*": f"{source}.attention.v_lin.*",
        f"{layer}.attention.o.*": f"{source}.attention.out_lin.*",
        f"{layer}.attention_norm.*": f"{source}.sa_layer_norm.*",
        f"{layer}.feed_forward.up.*": f"{source}.ffn.lin1.*",
        f"{layer}.feed_forward.down.*": f"{source}.ffn.lin2.*",
        f"{layer}.feed_forward_norm.*": f"{source}.output_layer_norm.*",
    }
    drop = ("embeddings.position_ids", "vocab_*", "pre_classifier.*", "classifier.*", "qa_outputs.*")
    return Table(rules | _head_rules(spec), NAMING, drop)


def _head_rules(spec: EncoderSpec) -> Rules:
    masked_lm: Rules = {"head.dense.*": "vocab_transform.*", "head.norm.*": "vocab_layer_norm.*"}
    word_embedding = "embeddings.word_embeddings.weight"
    return bert.head_rules(
        spec,
        sequence={"head.dense.*": "pre_classifier.*", "head.*": "classifier.*"},
        choices={"head.dense.*": "pre_classifier.*", "head.*": "classifier.*"},
        masked_lm=masked_lm
        | bert.masked_lm_rules(spec, word_embedding, "vocab_projector", "vocab_projector.bias"),
    )
