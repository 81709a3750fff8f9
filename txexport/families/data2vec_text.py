"""Data2Vec of texts (Baevski et al. 2022): RoBERTa, trained another way."""

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
    """RoBERTa's weight names, behind another prefix."""
    return replace(roberta.table(spec), naming=NAMING)
