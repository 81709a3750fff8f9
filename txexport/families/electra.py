"""ELECTRA (Clark et al. 2020): BERT with a factorised word embedding and other heads."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec, PositionKind, PositionSpec

TASKS = {
    "feature-extraction": ("ElectraModel", "ElectraForPreTraining"),
    "fill-mask": ("ElectraForMaskedLM",),
    "text-classification": ("ElectraForSequenceClassification",),
    "token-classification": ("ElectraForTokenClassification",),
    "question-answering": ("ElectraForQuestionAnswering",),
    "multiple-choice": ("ElectraForMultipleChoice",),
}

NAMING = Naming("electra.", {".gamma": ".weight", ".beta": ".bias"})
HEADS = ("discriminator_predictions.*", "generator_*", "classifier.*", "qa_outputs.*", "sequence_summary.*")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; no projection where embedding_size equals hidden_size."""
    if task == "multiple-choice":
        config.expect(summary_type="first", summary_use_proj=True, summary_activation="gelu")
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings"))
    size = config.integer("embedding_size", 128)
    return bert.encoder_spec(
        config,
        task,
        names,
        position,
        Activation.GELU,
        factored_size=None if size == config.integer("hidden_size") else size,
        sequence=Activation.GELU,
    )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules = bert.stack_rules() | {"encoder.embedding.project.*": "embeddings_project.*"} | head_rules(spec)
    return Table(rules, NAMING, ("embeddings.position_ids", *HEADS))


def head_rules(spec: EncoderSpec) -> Rules:
    """Tensor names of ELECTRA's heads."""
    masked_lm: Rules = {
        "head.dense.*": "generator_predictions.dense.*",
        "head.norm.*": "generator_predictions.LayerNorm.*",
    }
    word_embedding = "embeddings.word_embeddings.weight"
    return bert.head_rules(
        spec,
        sequence={"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
        choices={"head.dense.*": "sequence_summary.summary.*", "head.*": "classifier.*"},
        masked_lm=masked_lm
        | bert.masked_lm_rules(spec, word_embedding, "generator_lm_head", "generator_lm_head.bias"),
    )
