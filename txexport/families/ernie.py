"""ERNIE 1.0 to 3.0 (Sun et al. 2020): BERT, optionally with a task type embedding."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, TextStackSpec

TASKS = {
    "feature-extraction": ("ErnieModel",),
    "fill-mask": ("ErnieForMaskedLM",),
    "pretraining": ("ErnieForPreTraining",),
    "next-sentence-prediction": ("ErnieForNextSentencePrediction",),
    "text-classification": ("ErnieForSequenceClassification",),
    "token-classification": ("ErnieForTokenClassification",),
    "question-answering": ("ErnieForQuestionAnswering",),
    "multiple-choice": ("ErnieForMultipleChoice",),
}

NAMING = Naming("ernie.", bert.NAMING.rename)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; task_type_ids default to 0."""
    base = bert.spec(config, task, names)
    if not config.flag("use_task_id", False):
        return base
    stack = base.encoder
    assert isinstance(stack, TextStackSpec)
    embedding = replace(stack.embedding, task_type_vocab_size=config.integer("task_type_vocab_size", 3))
    return replace(base, encoder=replace(stack, embedding=embedding))


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {"encoder.embedding.task.*": "embeddings.task_type_embeddings.*"}
    base = bert.table(spec)
    return replace(base, rules=base.rules | rules, naming=NAMING)
