"""ALBERT (Lan et al. 2020): BERT with layers that share parameters, and a factorised word embedding."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, PositionKind, PositionSpec

TASKS = {
    "feature-extraction": ("AlbertModel", "AlbertForPreTraining"),
    "fill-mask": ("AlbertForMaskedLM",),
    "text-classification": ("AlbertForSequenceClassification",),
    "token-classification": ("AlbertForTokenClassification",),
    "question-answering": ("AlbertForQuestionAnswering",),
    "multiple-choice": ("AlbertForMultipleChoice",),
}

NAMING = Naming("albert.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config.expect(num_hidden_groups=1, inner_group_num=1)
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    activation = config.activation("hidden_act", "gelu_new")
    size = config.integer("embedding_size", 128)
    return bert.encoder_spec(
        config, task, names, position, activation, activation=activation, factored_size=size
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers; every layer has the same ones."""
    layer, source = "encoder.layers.{i}", "encoder.albert_layer_groups.0.albert_layers.0"
    rules: Rules = {
        "encoder.embedding.word.weight": "embeddings.word_embeddings.weight",
        "encoder.embedding.position.*": "embeddings.position_embeddings.*",
        "encoder.embedding.segment.*": "embeddings.token_type_embeddings.*",
        "encoder.embedding.norm.*": "embeddings.LayerNorm.*",
        "encoder.embedding.project.*": "encoder.embedding_hidden_mapping_in.*",
        f"{layer}.attention.q.*": f"{source}.attention.query.*",
        f"{layer}.attention.k.*": f"{source}.attention.key.*",
        f"{layer}.attention.v.*": f"{source}.attention.value.*",
        f"{layer}.attention.o.*": f"{source}.attention.dense.*",
        f"{layer}.attention_norm.*": f"{source}.attention.LayerNorm.*",
        f"{layer}.feed_forward.up.*": f"{source}.ffn.*",
        f"{layer}.feed_forward.down.*": f"{source}.ffn_output.*",
        f"{layer}.feed_forward_norm.*": f"{source}.full_layer_layer_norm.*",
        "pooler.dense.*": "pooler.*",
    }
    drop = (
        "embeddings.position_ids",
        "pooler.*",
        "predictions.*",
        "sop_classifier.*",
        "classifier.*",
        "qa_outputs.*",
    )
    return Table(rules | _head_rules(spec), NAMING, drop)


def _head_rules(spec: EncoderSpec) -> Rules:
    masked_lm: Rules = {"head.dense.*": "predictions.dense.*", "head.norm.*": "predictions.LayerNorm.*"}
    word_embedding = "embeddings.word_embeddings.weight"
    return bert.head_rules(
        spec,
        sequence={"head.dense.*": "pooler.*", "head.*": "classifier.*"},
        choices={"head.dense.*": "pooler.*", "head.*": "classifier.*"},
        masked_lm=masked_lm
        | bert.masked_lm_rules(spec, word_embedding, "predictions.decoder", "predictions.bias"),
    )
