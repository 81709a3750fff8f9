"""RoBERTa (Liu et al. 2019): BERT with positions that skip padding, and other heads."""

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec, PositionKind, PositionSpec

TASKS = {
    "feature-extraction": ("RobertaModel",),
    "fill-mask": ("RobertaForMaskedLM",),
    "text-classification": ("RobertaForSequenceClassification",),
    "token-classification": ("RobertaForTokenClassification",),
    "question-answering": ("RobertaForQuestionAnswering",),
    "multiple-choice": ("RobertaForMultipleChoice",),
}

NAMING = Naming("roberta.", {".gamma": ".weight", ".beta": ".bias"})


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    padding, size = config.integer("pad_token_id", 1), config.integer("max_position_embeddings")
    position = PositionSpec(PositionKind.LEARNED, size, offset=padding, pad_token_id=padding)
    return bert.encoder_spec(config, task, names, position, Activation.GELU)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    drop = ("embeddings.position_ids", "pooler.*", "lm_head.*", "classifier.*", "qa_outputs.*")
    return Table(bert.stack_rules() | _head_rules(spec), NAMING, drop)


def _head_rules(spec: EncoderSpec) -> Rules:
    masked_lm: Rules = {"head.dense.*": "lm_head.dense.*", "head.norm.*": "lm_head.layer_norm.*"}
    word_embedding = "embeddings.word_embeddings.weight"
    return bert.head_rules(
        spec,
        sequence={"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
        masked_lm=masked_lm | bert.masked_lm_rules(spec, word_embedding, "lm_head.decoder", "lm_head.bias"),
    )
