"""Data2Vec for text (Baevski et al. 2022): RoBERTa's architecture with another training objective."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Table
from txexport.families import roberta
from txexport.spec import EncoderSpec

TASKS = {
    "feature-extraction": ("Data2VecTextModel",),
    "fill-mask": ("Data2VecTextForMaskedLM",),
    "text-classification": ("Data2VecTextForSequenceClassification",),
    "token-classification": ("Data2VecTextForTokenClassification",),
    "question-answering": ("Data2VecTextForQuestionAnswering",),
    "multiple-choice": ("Data2VecTextForMultipleChoice",),
}

NAMING = replace(roberta.NAMING, prefix="data2vec_text.")
spec = roberta.spec


def table(spec: EncoderSpec) -> Table:
    """RoBERTa's tensor names under another prefix."""
    return replace(roberta.table(spec), naming=NAMING)
